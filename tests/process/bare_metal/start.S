/* Entry from the Multiboot loader of QEMU (-kernel): protected mode, no paging, interrupts off. */
        .text
        .balign 4
        .long 0x1badb002, 0, -0x1badb002        /* Multiboot 0.6.96: magic, flags, checksum */
        .globl _start, on_adapter_interrupt, on_timer_interrupt
_start:
        mov     $stack_end, %esp
        cld
        call    run
stop:   hlt
        jmp     stop

/*
 * Count the interrupt, acknowledge it at the local APIC and continue at the address in EBX with
 * interrupts off: without IRET, which KVM's instruction emulator does not know in this mode.
 */
        .macro  count_into counter
        incl    \counter
        movl    $0, 0xfee000b0
        add     $12, %esp                       /* EIP, CS, EFLAGS */
        jmp     *%ebx
        .endm
on_adapter_interrupt:
        count_into adapter_interrupts
on_timer_interrupt:
        count_into timer_interrupts

        .bss
        .balign 16
        .space  16384
stack_end:
