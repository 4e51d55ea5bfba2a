"""Which system calls a child may make, and their numbers on each machine. Data for `seccomp`.

A name without a number on a machine does not exist there.
"""

# Whatever their arguments: own memory, own signals, clocks, exit.
ALLOWED = (
    "brk", "munmap", "nanosleep", "gettimeofday", "time", "times", "getrusage", "close", "poll", "ppoll",
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "sched_yield", "getuid", "getgid", "geteuid", "getegid",
    "restart_syscall", "rseq", "exit", "exit_group",
)  # fmt: skip

# Only on descriptors 0 to 3: /dev/null and the replay's own socket. No sendmsg, so no descriptor is ever passed.
ON_OWN_DESCRIPTORS = ("read", "write", "recvfrom", "sendto")

# Only for the clocks of the machine and the caller's own, whose numbers are small; any other number is the CPU clock of some
# process. Only for the caller itself, whose number is 0. Only to wait and to wake, never with an owner. Each of these would
# tell which process ids exist: the own one, which counts replays, and on the local backend all of the machine.
OF_OWN_CLOCKS = ("clock_gettime", "clock_getres", "clock_nanosleep")
OF_ITSELF = ("sched_getaffinity",)
TO_WAIT_OR_WAKE = ("futex",)

# Only to give memory back. Advice to merge pages that are the same elsewhere would tell, by the time that a write takes, what
# lies in the memory of other containers.
TO_GIVE_BACK = ("madvise",)

# Never with PROT_EXEC.
WITHOUT_EXEC = ("mprotect",)

# Only memory that the process's own limits count, where the kernel puts it, and never with PROT_EXEC. Shared memory stays when
# all but one page of it is let go, and no limit of a process counts it then; a page far away from all others costs the kernel
# two more, which none counts either; nor are huge pages in what a process is seen to hold. Pages that the kernel may drop would
# tell what others take. So only what allocators ask for.
OWN_MEMORY = ("mmap",)
WHERE_THE_KERNEL_PUTS_IT = ("mremap",)

# There are no files: a missing module is a clean ModuleNotFoundError.
NO_FILES = (
    "open", "openat", "openat2", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
    "readlinkat", "getdents64", "getcwd", "chdir",
)  # fmt: skip

# A thread meets a limit, EAGAIN, and Python says "can't start new thread"; a process is nothing that a policy has any
# business with, limit or not: EPERM, as everything below that has no line here.
NO_THREADS = ("clone",)

# Answer 0: the real ones count replays.
NO_IDENTITY = ("getpid", "getppid", "gettid")

# ENOSYS: no entropy, and the C library falls back to clone.
NOT_THERE = ("getrandom", "clone3")

# No policy makes these by accident: the verdict shall be unmistakable.
HOSTILE = (
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "mount", "umount2", "move_mount",
    "open_tree", "fsopen", "pivot_root", "chroot", "unshare", "setns", "bpf", "keyctl", "add_key", "request_key",
    "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd", "perf_event_open", "kexec_load", "kexec_file_load",
    "init_module", "finit_module", "delete_module", "open_by_handle_at",
)  # fmt: skip

X86_64 = {
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "lstat": 6, "poll": 7, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "access": 21,
    "sched_yield": 24, "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "sendto": 44, "recvfrom": 45, "clone": 56,
    "exit": 60, "getcwd": 79, "chdir": 80, "readlink": 89, "gettimeofday": 96, "getrusage": 98,
    "times": 100, "ptrace": 101, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110,
    "sigaltstack": 131, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "init_module": 175,
    "delete_module": 176, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204, "getdents64": 217,
    "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "openat": 257, "newfstatat": 262, "readlinkat": 267,
    "faccessat": 269, "ppoll": 271, "unshare": 272, "perf_event_open": 298, "open_by_handle_at": 304,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313, "getrandom": 318,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "statx": 332, "rseq": 334,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "faccessat2": 439, "process_madvise": 440,
}  # fmt: skip

AARCH64 = {
    "getcwd": 17, "umount2": 39, "mount": 40, "pivot_root": 41, "faccessat": 48, "chdir": 49, "chroot": 51, "openat": 56,
    "close": 57, "getdents64": 61, "read": 63, "write": 64, "ppoll": 73, "readlinkat": 78, "newfstatat": 79,
    "exit": 93, "exit_group": 94, "unshare": 97, "futex": 98, "nanosleep": 101,
    "kexec_load": 104, "init_module": 105, "delete_module": 106, "clock_gettime": 113, "clock_getres": 114,
    "clock_nanosleep": 115, "ptrace": 117, "sched_getaffinity": 123, "sched_yield": 124, "restart_syscall": 128,
    "sigaltstack": 132, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "times": 153, "getrusage": 165,
    "gettimeofday": 169, "getpid": 172, "getppid": 173, "getuid": 174, "geteuid": 175, "getgid": 176, "getegid": 177,
    "gettid": 178, "sendto": 206, "recvfrom": 207, "brk": 214, "munmap": 215, "mremap": 216, "add_key": 217,
    "request_key": 218, "keyctl": 219, "clone": 220, "mmap": 222, "mprotect": 226, "madvise": 233, "perf_event_open": 241,
    "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270, "process_vm_writev": 271, "finit_module": 273,
    "getrandom": 278, "bpf": 280, "userfaultfd": 282, "statx": 291, "rseq": 293, "kexec_file_load": 294,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "faccessat2": 439, "process_madvise": 440,
}  # fmt: skip

# The kernel's name of the machine -> (its AUDIT_ARCH value, its table)
MACHINES = {"x86_64": (0xC000003E, X86_64), "aarch64": (0xC00000B7, AARCH64)}


def name_of(number: int, architecture: int) -> str | None:
    """Return the name of this call on the machine with this AUDIT_ARCH; None for calls and machines without a line here."""
    for known, numbers in MACHINES.values():
        if known == architecture:
            return next((name for name, its in numbers.items() if its == number), None)
    return None
