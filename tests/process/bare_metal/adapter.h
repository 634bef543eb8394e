/* The adapter: command interface with mailboxes, MSI-X, one event queue. PRM; mlx5_ifc.h. */
#ifndef ADAPTER_H
#define ADAPTER_H

#include "machine.h"

enum {
	QUERY_PAGES = 0x107, MANAGE_PAGES = 0x108, QUERY_ISSI = 0x10a, SET_ISSI = 0x10b,
	INIT_HCA = 0x102, TEARDOWN_HCA = 0x103, ENABLE_HCA = 0x104,
	CREATE_EQ = 0x301, DESTROY_EQ = 0x302, ALLOC_UAR = 0x802,
};

#define PAGE 4096
#define PAGES 512
#define MAX_WORDS 1024 /* of a command's input or output */
#define MAILBOX_WORDS 128
#define MAILBOX_STRIDE 256 /* in words: data, then next and number */
#define INITIALIZING 0x1fc
#define COMMAND_QUEUE_HIGH 0x10
#define COMMAND_QUEUE_LOW 0x14
#define COMMAND_DOORBELL 0x18
#define EQ_ENTRIES 64
#define EQE_WORDS 16
#define EQ_ARM 0x40
#define COMMAND_COMPLETION 0x0a /* event type */

static u32 bar;
static u32 command_queue[PAGE / 4] __attribute__((aligned(PAGE)));
static u32 mailboxes[2][8][MAILBOX_STRIDE] __attribute__((aligned(PAGE)));
static u32 eq_ring[EQ_ENTRIES * EQE_WORDS] __attribute__((aligned(PAGE)));
static u8 pages[PAGES][PAGE] __attribute__((aligned(PAGE)));
static u32 pages_given;
static u32 input[MAX_WORDS], output[MAX_WORDS]; /* in the processor's byte order */

/* Fill a chain of mailboxes behind the first four words; the output's chain is empty. */
static u32 chain(u32 (*box)[MAILBOX_STRIDE], const u32 *data, u32 words, u32 token)
{
	for (u32 number = 0; 4 + number * MAILBOX_WORDS < words; number++) {
		u32 *at = box[number], first = 4 + number * MAILBOX_WORDS;

		for (u32 i = 0; i < MAILBOX_WORDS; i++)
			at[i] = data && first + i < words ? be32(data[first + i]) : 0;
		at[0x230 / 4] = 0;
		at[0x234 / 4] = first + MAILBOX_WORDS < words ? be32((u32)box[number + 1]) : 0;
		at[0x238 / 4] = be32(number);
		at[0x23c / 4] = be32(token << 16);
	}
	return words > 4 ? be32((u32)box[0]) : 0;
}

/* Write the entry of slot 0, owned by the adapter, and ring; input is cleared for the next. */
static void post_command(u32 opcode, u32 modifier, u32 in_bytes, u32 out_bytes)
{
	static u32 token;
	volatile u32 *entry = command_queue;

	token = (token + 1) & 0xff;
	input[0] = opcode << 16;
	input[1] = (input[1] & 0xffff0000u) | modifier;
	entry[0] = be32(7u << 24);
	entry[1] = be32(in_bytes);
	entry[2] = 0;
	entry[3] = chain(mailboxes[0], input, in_bytes / 4, token);
	for (u32 i = 0; i < 4; i++) {
		entry[4 + i] = be32(input[i]);
		entry[8 + i] = 0;
	}
	entry[12] = 0;
	entry[13] = chain(mailboxes[1], 0, out_bytes / 4, token);
	entry[14] = be32(out_bytes);
	entry[15] = be32(token << 24 | 1);
	for (u32 i = 0; i < in_bytes / 4; i++)
		input[i] = 0;
	*reg(bar + COMMAND_DOORBELL) = be32(1);
}

/* Return whether the posted command has succeeded, after up to two seconds. */
static int finish_command(u32 out_bytes)
{
	volatile u32 *entry = command_queue;
	struct deadline deadline = after(2 * SECOND);

	while (be32(entry[15]) & 1)
		if (is_over(&deadline)) {
			print("# the command does not end\n");
			return 0;
		}
	for (u32 i = 0; i < 4; i++)
		output[i] = be32(entry[8 + i]);
	for (u32 i = 4; i < out_bytes / 4; i++)
		output[i] = be32(mailboxes[1][(i - 4) / MAILBOX_WORDS][(i - 4) % MAILBOX_WORDS]);
	if (!(output[0] >> 24) && !(be32(entry[15]) >> 1 & 0x7f))
		return 1;
	print("# the command is refused: status ");
	print_hex(output[0] >> 24);
	print(", syndrome ");
	print_hex(output[1]);
	print("\n");
	return 0;
}

static int command(u32 opcode, u32 modifier, u32 in_bytes, u32 out_bytes)
{
	post_command(opcode, modifier, in_bytes, out_bytes);
	return finish_command(out_bytes);
}

/* Give as many pages as QUERY_PAGES asks for: modifier 1 before INIT_HCA, 2 for it. */
static int give_pages(u32 modifier)
{
	if (!command(QUERY_PAGES, modifier, 16, 16))
		return 0;
	for (u32 left = output[3]; left;) {
		u32 count = left < 64 ? left : 64;

		if (pages_given + count > PAGES)
			return 0;
		input[3] = count;
		for (u32 i = 0; i < count; i++)
			input[5 + 2 * i] = (u32)pages[pages_given++];
		if (!command(MANAGE_PAGES, 1, 16 + 8 * count, 16))
			return 0;
		left -= count;
	}
	return 1;
}

/* The event queue. */

static u32 uar, eqn, eq_index;

static int create_eq(u32 vector)
{
	for (u32 i = 0; i < EQ_ENTRIES; i++)
		eq_ring[i * EQE_WORDS + EQE_WORDS - 1] = be32(1);
	eq_index = 0;
	input[7] = 6 << 24 | uar; /* log_eq_size, uar_page */
	input[9] = vector;
	input[0x5c / 4] = 1 << COMMAND_COMPLETION;
	input[0x114 / 4] = (u32)eq_ring;
	int created = command(CREATE_EQ, 0, 0x118, 16);
	eqn = output[2] & 0xff;
	return created;
}

static int destroy_eq(void)
{
	input[2] = eqn;
	return command(DESTROY_EQ, 0, 16, 16);
}

static void arm(void) { *reg(bar + uar * PAGE + EQ_ARM) = be32(eqn << 24 | (eq_index & 0xffffff)); }

/* Return the next event's type; 0 without one. */
static u32 poll_eq(void)
{
	volatile u32 *eqe = eq_ring + eq_index % EQ_ENTRIES * EQE_WORDS;

	if ((be32(eqe[EQE_WORDS - 1]) & 1) != (eq_index / EQ_ENTRIES & 1))
		return 0;
	eq_index++;
	return be32(eqe[0]) >> 16 & 0xff;
}

static u32 await_event(void)
{
	struct deadline deadline = after(SECOND);
	u32 type;

	while (!(type = poll_eq()))
		if (is_over(&deadline))
			return 0;
	return type;
}

/* MSI-X. */

static u32 msix, msix_table;

#define MSIX_ENABLE 0x80000000u
#define MSIX_FUNCTION_MASK 0x40000000u

static void msix_control(u32 bits) { config_write(msix, (config_read(msix) & 0x3fffffff) | bits); }
static void mask(u32 entry, u32 masked) { *reg(msix_table + 16 * entry + 12) = masked; }

static void set_entry(u32 entry, u32 vector, u32 masked)
{
	mask(entry, 1);
	*reg(msix_table + 16 * entry) = LOCAL_APIC;
	*reg(msix_table + 16 * entry + 4) = 0;
	*reg(msix_table + 16 * entry + 8) = vector;
	mask(entry, masked);
}

#endif
