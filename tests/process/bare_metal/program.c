/*
 * Drives the adapter without an operating system: commands, MSI-X and resets on a processor that
 * KVM or TCG runs. Prints "ok NAME" or "FAIL NAME" for each check, then "passed" or "failed".
 *
 * Interrupts are off at the processor in the first checks, so that the local APIC's request
 * register shows what has arrived. Each check uses another vector, because none is acknowledged.
 */
#include "adapter.h"

#define MELLANOX 0x15b3
#define BUS_MASTER 4
#define MEMORY_SPACE 2
#define INITIATE_FLR 0x8000
#define COMMANDS 300
#define MASKED_COMMANDS 200
#define HALT_VECTOR 0x43

static int failures;

static int check(const char *name, int is_good)
{
	print(is_good ? "ok " : "FAIL ");
	print(name);
	print("\n");
	failures += !is_good;
	return is_good;
}

static void end(void)
{
	print(failures ? "failed\n" : "passed\n");
	outb(0xf4, failures != 0); /* QEMU's isa-debug-exit */
	for (;;)
		asm volatile("hlt");
}

/* Run a command whose completion is an event, and look for the vector at the local APIC. */
static void expect_vector(const char *name, u32 vector, int is_expected)
{
	int ended = command(QUERY_PAGES, 1, 16, 16);
	u32 event = await_event();
	int arrived = await_request(vector, is_expected ? SECOND : SECOND / 10);

	check(name, ended && event == COMMAND_COMPLETION && arrived == is_expected);
}

static void find_adapter(void)
{
	for (function = 0; function < 0x400; function++)
		if ((config_read(0) & 0xffff) == MELLANOX)
			break;
	if (!check("a function on buses 0 to 3", function < 0x400))
		end();
	bar = config_read(0x10) & ~15u;
	if (!check("BAR 0 below 4 GiB", !config_read(0x14)))
		end();
	msix = capability(0x11);
	msix_table = bar + (config_read(msix + 4) & ~7u);
	*reg(LOCAL_APIC + APIC_SPURIOUS) = 0x1ff;
	*reg(LOCAL_APIC + APIC_TPR) = 0;
}

static void start_adapter(void)
{
	struct deadline deadline = after(2 * SECOND);

	config_write(4, (config_read(4) & 0xffff) | BUS_MASTER | MEMORY_SPACE);
	while (be32(*reg(bar + INITIALIZING)) >> 31)
		if (is_over(&deadline)) {
			check("initialization ends", 0);
			end();
		}
	*reg(bar + COMMAND_QUEUE_HIGH) = 0;
	*reg(bar + COMMAND_QUEUE_LOW) = be32((u32)command_queue);
	pages_given = 0;
	check("ENABLE_HCA", command(ENABLE_HCA, 0, 16, 16));
	input[2] = 1;
	check("SET_ISSI", command(SET_ISSI, 0, 16, 16));
	check("boot pages", give_pages(1));
	check("init pages", give_pages(2));
	check("INIT_HCA", command(INIT_HCA, 0, 32, 16));
	check("ALLOC_UAR", command(ALLOC_UAR, 0, 16, 16));
	uar = output[2] & 0xffffff;
}

static void check_masks(void)
{
	msix_control(MSIX_ENABLE | MSIX_FUNCTION_MASK); /* the order of Linux: masked, then enabled */
	set_entry(0, 0x41, 0);
	msix_control(MSIX_ENABLE);
	check("CREATE_EQ", create_eq(0));
	arm();
	expect_vector("interrupt", 0x41, 1);

	set_entry(0, 0x44, 0);
	expect_vector("no interrupt while the queue is not armed", 0x44, 0);

	set_entry(0, 0x71, 1);
	arm();
	expect_vector("no interrupt while the entry is masked", 0x71, 0);
	mask(0, 0);
	check("interrupt after unmasking the entry", await_request(0x71, SECOND));

	set_entry(0, 0x72, 1);
	arm();
	expect_vector("no interrupt while the entry is masked again", 0x72, 0);
	set_entry(0, 0x73, 0);
	check("interrupt at the vector that the entry got meanwhile", await_request(0x73, SECOND));

	for (u32 vector = 0x81; vector <= 0xb1; vector += 0x10) {
		set_entry(0, vector, 0);
		arm();
		expect_vector("interrupt after a change of the entry", vector, 1);
	}

	set_entry(0, 0x52, 0);
	msix_control(MSIX_ENABLE | MSIX_FUNCTION_MASK);
	arm();
	expect_vector("no interrupt while the function is masked", 0x52, 0);
	msix_control(MSIX_ENABLE);
	check("interrupt after unmasking the function", await_request(0x52, SECOND));

	msix_control(0);
	msix_control(MSIX_ENABLE);
	set_entry(0, 0x53, 0);
	arm();
	expect_vector("interrupt after MSI-X was off", 0x53, 1);
}

static void check_second_vector(void)
{
	check("DESTROY_EQ", destroy_eq());
	check("CREATE_EQ on entry 1", create_eq(1));
	set_entry(1, 0x62, 0);
	arm();
	expect_vector("interrupt by entry 1", 0x62, 1);

	set_entry(1, 0x63, 0);
	arm();
	config_write(4, (config_read(4) & 0xffff) & ~BUS_MASTER);
	config_write(4, (config_read(4) & 0xffff) | BUS_MASTER);
	expect_vector("interrupt after Bus Master was off", 0x63, 1);
	check("DESTROY_EQ of entry 1", destroy_eq());
	check("TEARDOWN_HCA", command(TEARDOWN_HCA, 0, 16, 16));
}

static void check_function_reset(void)
{
	u32 express = capability(0x10);
	struct deadline deadline = after(SECOND);

	if (!check("function-level reset is offered", express && config_read(express + 4) >> 28 & 1))
		return;
	config_write(express + 8, (config_read(express + 8) & 0xffff) | INITIATE_FLR);
	while (config_read(0) == 0xffffffffu && !is_over(&deadline))
		;
	check("Bus Master is off after the reset", !(config_read(4) & BUS_MASTER));
	config_write(0x10, bar);
	config_write(0x14, 0);
	start_adapter();
	msix_control(MSIX_ENABLE);
	set_entry(0, 0xc2, 0);
	check("CREATE_EQ after the reset", create_eq(0));
	arm();
	expect_vector("interrupt after the reset", 0xc2, 1);
}

/* Take interrupts in a halted processor; every second time the entry is masked meanwhile. */
static void check_halts(const char *name, u32 commands, int masks)
{
	u32 events = 0;

	adapter_interrupts = timer_interrupts = 0;
	for (u32 i = 0; i < commands && !timer_interrupts; i++) {
		arm();
		start_timer();
		post_command(QUERY_PAGES, 1, 16, 16);
		if (masks) {
			for (u32 reads = i % 4; reads; reads--)
				(void)config_read(0);
			set_entry(0, HALT_VECTOR + (i & 0x30), 0); /* masks it first */
		}
		halt();
		events += await_event() == COMMAND_COMPLETION;
	}
	stop_timer();
	check(name, events == commands && !timer_interrupts && adapter_interrupts >= commands);
}

/* The processor takes the highest vector first. */
static void take_earlier_interrupts(void)
{
	for (u32 vector = 255; vector >= 32; vector--)
		if (is_requested(vector))
			halt();
}

/* Reset the machine once; a byte of the clock's memory remembers it. */
static void reset_machine_once(void)
{
	outb(0x70, 0x50);
	if (failures || inb(0x71) == 0xa5)
		return;
	outb(0x71, 0xa5);
	print("reset of the machine\n");
	outb(0xcf9, 2);
	outb(0xcf9, 6);
	for (;;)
		;
}

void run(void)
{
	find_adapter();
	start_adapter();
	check_masks();
	check_second_vector();
	check_function_reset();
	take_interrupts();
	take_earlier_interrupts();
	set_entry(0, HALT_VECTOR, 0);
	check_halts("every command wakes the halted processor", COMMANDS, 0);
	check_halts("no interrupt is lost while the entry is masked", MASKED_COMMANDS, 1);
	reset_machine_once();
	end();
}
