/* The PC: console, configuration space, time, local APIC. One processor, memory mapped 1:1. */
#ifndef MACHINE_H
#define MACHINE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

static inline void outb(u16 port, u8 value) { asm volatile("outb %0,%1" ::"a"(value), "Nd"(port)); }
static inline void outl(u16 port, u32 value) { asm volatile("outl %0,%1" ::"a"(value), "Nd"(port)); }

static inline u8 inb(u16 port)
{
	u8 value;
	asm volatile("inb %1,%0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline u32 inl(u16 port)
{
	u32 value;
	asm volatile("inl %1,%0" : "=a"(value) : "Nd"(port));
	return value;
}

static inline u32 be32(u32 value) { return __builtin_bswap32(value); }
static inline volatile u32 *reg(u32 address) { return (volatile u32 *)address; }

/* Console: the first serial port. */

static void print(const char *text)
{
	for (; *text; text++)
		outb(0x3f8, *text);
}

static void print_hex(u32 value)
{
	print("0x");
	for (int shift = 28; shift >= 0; shift -= 4)
		outb(0x3f8, "0123456789abcdef"[value >> shift & 15]);
}

/* Time: the ACPI PM timer, 24 bits at 3,579,545 Hz, where SeaBIOS has put it on q35. */

#define PM_TIMER_PORT 0x608
#define SECOND 3579545u

struct deadline {
	u32 last, ticks_left;
};

static struct deadline after(u32 ticks)
{
	return (struct deadline){inl(PM_TIMER_PORT) & 0xffffff, ticks};
}

static int is_over(struct deadline *deadline)
{
	u32 now = inl(PM_TIMER_PORT) & 0xffffff, passed = (now - deadline->last) & 0xffffff;

	deadline->last = now;
	deadline->ticks_left = passed < deadline->ticks_left ? deadline->ticks_left - passed : 0;
	return !deadline->ticks_left;
}

/* PCI configuration space by mechanism 1. */

static u32 function; /* bus << 8 | device << 3 | function */

static u32 config_read(u32 offset)
{
	outl(0xcf8, 0x80000000u | function << 8 | (offset & ~3u));
	return inl(0xcfc);
}

static void config_write(u32 offset, u32 value)
{
	outl(0xcf8, 0x80000000u | function << 8 | (offset & ~3u));
	outl(0xcfc, value);
}

static u32 capability(u32 id)
{
	for (u32 at = config_read(0x34) & 0xfc; at; at = config_read(at) >> 8 & 0xfc)
		if ((config_read(at) & 0xff) == id)
			return at;
	return 0;
}

/* The local APIC and the interrupts that the processor takes. */

#define LOCAL_APIC 0xfee00000u
#define APIC_TPR 0x80
#define APIC_SPURIOUS 0xf0
#define APIC_IRR 0x200
#define APIC_TIMER_ENTRY 0x320
#define APIC_TIMER_COUNT 0x380
#define APIC_TIMER_DIVIDE 0x3e0
#define TIMER_VECTOR 0x31

extern void on_adapter_interrupt(void), on_timer_interrupt(void);
volatile u32 adapter_interrupts, timer_interrupts;

/* Whether the vector waits at the local APIC for the processor, whose interrupts are off. */
static int is_requested(u32 vector)
{
	return *reg(LOCAL_APIC + APIC_IRR + vector / 32 * 16) >> vector % 32 & 1;
}

static int await_request(u32 vector, u32 ticks)
{
	struct deadline deadline = after(ticks);

	while (!is_requested(vector))
		if (is_over(&deadline))
			return 0;
	return 1;
}

static struct {
	u16 low, selector, type, high;
} idt[256];

static u32 gdt[6] = {0, 0, 0x0000ffff, 0x00cf9a00, 0x0000ffff, 0x00cf9200};

static void set_gate(u32 vector, void (*handler)(void))
{
	idt[vector].low = (u32)handler;
	idt[vector].selector = 8;
	idt[vector].type = 0x8e00;
	idt[vector].high = (u32)handler >> 16;
}

static void take_interrupts(void)
{
	struct {
		u16 limit;
		u32 base;
	} __attribute__((packed)) of_gdt = {sizeof gdt - 1, (u32)gdt}, of_idt = {sizeof idt - 1, (u32)idt};

	for (u32 vector = 32; vector < 256; vector++)
		set_gate(vector, on_adapter_interrupt);
	set_gate(TIMER_VECTOR, on_timer_interrupt);
	outb(0x21, 0xff); /* no interrupt from the 8259s */
	outb(0xa1, 0xff);
	asm volatile("lgdt %0; ljmp $8, $1f; 1: mov $16, %%eax; mov %%eax, %%ds; mov %%eax, %%es;"
		     "mov %%eax, %%ss; lidt %1" ::"m"(of_gdt), "m"(of_idt) : "eax", "memory");
	*reg(LOCAL_APIC + APIC_TIMER_DIVIDE) = 0;
	*reg(LOCAL_APIC + APIC_TIMER_ENTRY) = TIMER_VECTOR;
}

/* Halt until one interrupt has been taken; the timer's counts as a failure. */
static void halt(void)
{
	asm volatile("mov $2f, %%ebx; sti; 1: hlt; jmp 1b; 2:" ::: "ebx", "memory", "cc");
}

static void start_timer(void) { *reg(LOCAL_APIC + APIC_TIMER_COUNT) = 0xffffffff; }
static void stop_timer(void) { *reg(LOCAL_APIC + APIC_TIMER_COUNT) = 0; }

#endif
