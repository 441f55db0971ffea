"""The threads of a library: the fork-join pool of `runtime/pool.py` on POSIX threads, started at the first call.

Functions and state are `linkonce_odr hidden`: all kernels that are linked into one program or shared library share a
pool. After `fork` the child starts a pool of its own, as threads are not inherited.
"""

from __future__ import annotations

from mslang.runtime.pool import SPINS
from mslang.runtime.pool_ir import WORD, WORDS, pool_ir

STATE = "mslang.pool_state"
"""Gives the state of the pool, started if need be; null where loops are to run serially."""

LAUNCH = "mslang.pool_launch"
"""What runs a parallel loop."""

WORKERS = "mslang.pool_workers"
"""Gives the number of workers of a state that a call may use; 1 for null."""

LIMIT = "mslang.pool_limit"
"""The largest number of workers that a call may use; 0: as many as the process may run on."""


def has_threads(triple: str) -> bool:
    """Whether the system of a triple has POSIX threads; elsewhere parallel loops run serially."""
    return any(name in triple for name in ("linux", "darwin", "macos", "bsd"))


def threads_ir(triple: str) -> str:
    """The pool's functions for a triple."""
    linux = "linux" in triple
    ir = pool_ir("linux" if linux else "other", triple.partition("-")[0])
    for name in ("pool_launch", "pool_worker"):
        ir = ir.replace(f"define void @{name}(", f"define linkonce_odr hidden void @mslang.{name}(")
    ir = ir.partition("define void @pool_stop")[0]
    count = _LINUX_COUNT if linux else _POSIX_COUNT.replace("@NUMBER@", "58")
    start = (
        _START.replace("@SETMASK@", "2" if linux else "3")
        .replace("@SPINS@", str(SPINS))
        .replace("@SIZE@", str(WORD * WORDS))
    )
    return ir + count + start


_LINUX_COUNT = """
declare i64 @llvm.ctpop.i64(i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @mslang.processors() {
entry:
  %mask = alloca [16 x i64], align 8
  call void @llvm.memset.p0.i64(ptr align 8 %mask, i8 0, i64 128, i1 false)
  %r = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %p = getelementptr i64, ptr %mask, i64 %k
  %w = load i64, ptr %p
  %c = call i64 @llvm.ctpop.i64(i64 %w)
  %n1 = add i64 %n, %c
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, 16
  br i1 %more, label %next, label %done
done:
  ret i64 %n1
}
"""

_POSIX_COUNT = """
declare i64 @sysconf(i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i64 @mslang.processors() {
  %n = call i64 @sysconf(i32 @NUMBER@)
  ret i64 %n
}
"""

# The words of the state are those of `runtime/pool.py`; its first words are zeroed again after a fork.
_START = """
@mslang.pool_memory = linkonce_odr hidden global [@SIZE@ x i8] zeroinitializer, align 128
@mslang.pool_owner = linkonce_odr hidden global i32 0, align 4
@mslang.pool_lock = linkonce_odr hidden global i32 0, align 4
@mslang.pool_limit = linkonce_odr hidden global i64 0, align 8

declare i32 @getpid()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)

define internal ptr @mslang.begin_worker(ptr %number) {
  %k = ptrtoint ptr %number to i64
  call void @mslang.pool_worker(ptr @mslang.pool_memory, i64 %k, i64 @SPINS@)
  ret ptr null
}

define linkonce_odr hidden i64 @mslang.pool_workers(ptr %state) {
entry:
  %none = icmp eq ptr %state, null
  br i1 %none, label %alone, label %some
alone:
  ret i64 1
some:
  %p = call ptr @mslang.word(ptr %state, i64 8)
  %all = load i64, ptr %p
  %limit = load atomic i64, ptr @mslang.pool_limit monotonic, align 8
  %free = icmp eq i64 %limit, 0
  %less = icmp ult i64 %limit, %all
  %limited = select i1 %less, i64 %limit, i64 %all
  %n = select i1 %free, i64 %all, i64 %limited
  ret i64 %n
}

define linkonce_odr hidden ptr @mslang.pool_state() {
entry:
  %own = call i32 @getpid()
  %owner = load atomic i32, ptr @mslang.pool_owner acquire, align 4
  %ready = icmp eq i32 %owner, %own
  br i1 %ready, label %done, label %claim
claim:
  ; One caller starts the pool; others that come meanwhile run serially.
  %swap = cmpxchg ptr @mslang.pool_lock, i32 0, i32 1 seq_cst seq_cst
  %got = extractvalue { i32, i1 } %swap, 1
  br i1 %got, label %again, label %serial
serial:
  ret ptr null
again:
  %now = load atomic i32, ptr @mslang.pool_owner acquire, align 4
  %late = icmp eq i32 %now, %own
  br i1 %late, label %unlock, label %start
start:
  call void @llvm.memset.p0.i64(ptr align 128 @mslang.pool_memory, i8 0, i64 @SIZE@, i1 false)
  %all = call i64 @mslang.processors()
  %limit = load atomic i64, ptr @mslang.pool_limit monotonic, align 8
  %greater = icmp sgt i64 %limit, %all
  %wanted = select i1 %greater, i64 %limit, i64 %all
  ; Signals of the process are not for the workers.
  %every = alloca [16 x i64], align 8
  %before = alloca [16 x i64], align 8
  %thread = alloca i64, align 8
  call void @llvm.memset.p0.i64(ptr align 8 %every, i8 -1, i64 128, i1 false)
  %s0 = call i32 @pthread_sigmask(i32 @SETMASK@, ptr %every, ptr %before)
  br label %next
next:
  %k = phi i64 [ 1, %start ], [ %k1, %made ]
  %more = icmp slt i64 %k, %wanted
  br i1 %more, label %make, label %finish
make:
  %number = inttoptr i64 %k to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @mslang.begin_worker, ptr %number)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %made, label %finish
made:
  %id = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %id)
  %k1 = add i64 %k, 1
  br label %next
finish:
  %count = phi i64 [ %k, %next ], [ %k, %make ]
  %s1 = call i32 @pthread_sigmask(i32 @SETMASK@, ptr %before, ptr null)
  %least = icmp slt i64 %count, 1
  %workers = select i1 %least, i64 1, i64 %count
  %p = call ptr @mslang.word(ptr @mslang.pool_memory, i64 8)
  store i64 %workers, ptr %p
  store atomic i32 %own, ptr @mslang.pool_owner release, align 4
  br label %unlock
unlock:
  store atomic i32 0, ptr @mslang.pool_lock seq_cst, align 4
  br label %done
done:
  ret ptr @mslang.pool_memory
}
"""
