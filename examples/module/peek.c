// SPDX-License-Identifier: GPL-2.0
/*
 * A module outside the kernel's tree that talks to RDMA devices.
 *
 * A turn of changing and trying it takes two seconds, in a guest that stays:
 *
 *   mlx5emu up dev --share .
 *   mlx5emu kernel module . && mlx5emu exec --cwd /mnt/share dev -- sh -c 'insmod peek.ko; dmesg | tail -1; rmmod peek'
 *
 * With a kernel of one's own, up and kernel module take --kernel TREE.
 */
#include <linux/module.h>
#include <rdma/ib_verbs.h>

static int peek_add(struct ib_device *device)
{
	pr_info("peek: %s has %u ports\n", dev_name(&device->dev), (unsigned int)device->phys_port_cnt);
	return 0;
}

static void peek_remove(struct ib_device *device, void *data)
{
	pr_info("peek: %s is going\n", dev_name(&device->dev));
}

static struct ib_client peek = {
	.name = "peek",
	.add = peek_add,
	.remove = peek_remove,
};

static int __init peek_init(void)
{
	return ib_register_client(&peek);
}

static void __exit peek_exit(void)
{
	ib_unregister_client(&peek);
}

module_init(peek_init);
module_exit(peek_exit);
MODULE_DESCRIPTION("Says which RDMA devices come and go");
MODULE_LICENSE("GPL");
