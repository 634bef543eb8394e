/*
 * A QEMU TCG plugin: records which blocks of guest code in an address range ran.
 *
 * The argument "map" names a file that is shared with the host program: a header, then for each
 * block its address, its length in bytes, and a byte that is 1 once the block ran. A block is one
 * translation unit of QEMU. Each store is one byte or one word and needs no lock. The hash table of
 * addresses is used only at translation.
 *
 * Debian's QEMU has the plugin interface without its header, so the functions are declared here:
 * include/plugins/qemu-plugin.h of QEMU 10.2 to 11.1, version 7 of the interface.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*callback)(void *tb, void *data),
                                                  void *data);
extern void qemu_plugin_register_vcpu_tb_exec_cb(void *tb, void (*callback)(unsigned vcpu, void *data),
                                                 int flags, void *data);
extern size_t qemu_plugin_tb_n_insns(const void *tb);
extern void *qemu_plugin_tb_get_insn(const void *tb, size_t index);
extern uint64_t qemu_plugin_tb_vaddr(const void *tb);
extern uint64_t qemu_plugin_insn_vaddr(const void *insn);
extern size_t qemu_plugin_insn_size(const void *insn);

EXPORT int qemu_plugin_version = 7;

struct header {
    uint64_t magic;
    uint64_t low, high;    /* address range, high excluded */
    uint64_t capacity;     /* most blocks in the file */
    volatile uint64_t count;
    volatile uint64_t lost; /* blocks beyond the capacity */
};

#define MAGIC 0x31534b434f4c42ULL /* "BLOCKS1" */

static struct header *header;
static uint64_t *addresses;
static uint32_t *lengths;
static uint8_t *ran;
static uint64_t *table; /* block number plus one, by hashed address */
static uint64_t mask;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Return the number of a block; capacity if the file is full. */
static uint64_t number_of(uint64_t address)
{
    uint64_t at = (address * 0x9e3779b97f4a7c15ULL >> 32) & mask;

    while (table[at]) {
        if (addresses[table[at] - 1] == address)
            return table[at] - 1;
        at = (at + 1) & mask;
    }
    if (header->count >= header->capacity) {
        header->lost++;
        return header->capacity;
    }
    addresses[header->count] = address;
    table[at] = header->count + 1;
    return header->count++;
}

static void executed(unsigned vcpu, void *data)
{
    (void)vcpu;
    ran[(uintptr_t)data] = 1;
}

static void translated(void *tb, void *data)
{
    uint64_t start = qemu_plugin_tb_vaddr(tb), number;
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    void *last;
    uint32_t length;

    (void)data;
    if (start < header->low || start >= header->high || !instructions)
        return;
    last = qemu_plugin_tb_get_insn(tb, instructions - 1);
    length = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last) - start;
    pthread_mutex_lock(&lock);
    number = number_of(start);
    /* A block translated again for a device access is shorter. */
    if (number < header->capacity && length > lengths[number])
        lengths[number] = length;
    pthread_mutex_unlock(&lock);
    if (number < header->capacity)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, (void *)(uintptr_t)number);
}

EXPORT int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    struct stat about;
    uint64_t slots = 1;
    void *memory;
    int file;

    (void)info;
    if (argc != 1 || strncmp(argv[0], "map=", 4))
        return -1;
    file = open(argv[0] + 4, O_RDWR | O_CLOEXEC);
    if (file < 0 || fstat(file, &about) || (size_t)about.st_size < sizeof(*header))
        return -1;
    memory = mmap(NULL, about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return -1;
    header = memory;
    if (header->magic != MAGIC || header->capacity > ((uint64_t)about.st_size - sizeof(*header)) / 13)
        return -1;
    addresses = (uint64_t *)(header + 1);
    lengths = (uint32_t *)(addresses + header->capacity);
    ran = (uint8_t *)(lengths + header->capacity);
    while (slots < 2 * header->capacity + 1)
        slots *= 2;
    mask = slots - 1;
    table = calloc(slots, sizeof(*table));
    if (!table)
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated, NULL);
    return 0;
}
