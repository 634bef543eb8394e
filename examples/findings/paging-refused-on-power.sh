#!/bin/sh
# The kernel refuses on-demand paging on POWER, though a direct window maps all memory:
#   mlx5emu run --arch ppc64el --suite sid --device connectx6,odp=1 --device connectx6 \
#       --share examples/findings -- sh /mnt/share/paging-refused-on-power.sh
# Prints the program's error and the kernel's reason. Status 0: the registration was refused.
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
echo 'func dma_addressing_limited +p' > /sys/kernel/debug/dynamic_debug/control
timeout 30 ibv_rc_pingpong -d mlx5_0 -o 2>&1
dmesg | sed 's/^\[[ 0-9.]*\] //' | grep -E 'limited|bypass mask' | tail -n 3
dmesg | grep -q 'device is DMA addressing limited'
