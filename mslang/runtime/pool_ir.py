"""The functions of the fork-join pool in LLVM IR.

A launch publishes a job, takes part in it, closes it, and waits for the workers that joined; workers that were asleep
do not hold it up. Each worker begins with a range of the iterations that is its own, the same in each launch, so that
the caches of its core have what it used in the last one; then it takes what others have left (Markatos and LeBlanc,
Using processor affinity in loop scheduling on shared-memory multiprocessors, 1994). Idle workers spin shortly, giving
way to other threads now and then, then sleep, unless they are to stay awake. A launch while another one is running
(from a nested loop, or from another thread) runs serially in its caller, so that launches neither wait for one another
nor take more processors than there are workers. A launch is made for a *team*: the pool's first so many workers.

Linux tends to wake a worker on the processor of the thread that wakes it, and leaves the two there for milliseconds, in
which the launcher does all the work. So a launcher that wakes workers gives way once, and a worker that finds itself on
the launcher's processor moves to another one.
"""

from __future__ import annotations

import sys

WORD = 128
"""Bytes from one word of the state to the next: each has a cache line of its own."""

RANGES = 64
"""The iterations of a job are cut into one range for each worker, but into so many at most: a power of two."""

WORDS = 10 + RANGES
"""Words of the state."""

SLEEPERS, WORKERS, AWAKE = 1, 8, 9
"""The words that hold the numbers of sleeping workers, of all, and of callers who want idle ones to stay awake."""

_SLEEP_FUTEX = """
declare i64 @syscall(i64, ...)
define internal void @mslang.sleep(ptr %word, i32 %seen) {
  %r = call i64 (i64, ...) @syscall(i64 @NUMBER@, ptr %word, i32 128, i32 %seen, ptr null)
  ret void
}
define internal void @mslang.wake(ptr %word) {
  %r = call i64 (i64, ...) @syscall(i64 @NUMBER@, ptr %word, i32 129, i32 2147483647)
  ret void
}
"""

_APART = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i32 @mslang.processor() {
  %p = call i32 @sched_getcpu()
  ret i32 %p
}

; Moves the calling thread to another one of the processors that it may run on, if there is one.
define internal void @mslang.leave_processor(i32 %p) {
entry:
  %allowed = alloca [16 x i64], align 8
  %others = alloca [16 x i64], align 8
  %known = icmp ult i32 %p, 1024
  br i1 %known, label %ask, label %done
ask:
  %error = call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  %fine = icmp eq i32 %error, 0
  br i1 %fine, label %move, label %done
move:
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %others, ptr align 8 %allowed, i64 128, i1 false)
  %at = lshr i32 %p, 6
  %word = getelementptr i64, ptr %others, i32 %at
  %place = and i32 %p, 63
  %place64 = zext i32 %place to i64
  %bit = shl i64 1, %place64
  %keep = xor i64 %bit, -1
  %old = load i64, ptr %word
  %new = and i64 %old, %keep
  store i64 %new, ptr %word
  ; Refused, and so without effect, where no processor is left.
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %again = call i32 @sched_setaffinity(i32 0, i64 128, ptr %allowed)
  br label %done
done:
  ret void
}
"""

_ANYWHERE = """
define internal i32 @mslang.processor() {
  ret i32 -1
}
define internal void @mslang.leave_processor(i32 %p) {
  ret void
}
"""

_SLEEP_POLL = """
declare i32 @usleep(i32)
define internal void @mslang.sleep(ptr %word, i32 %seen) {
  %r = call i32 @usleep(i32 50)
  ret void
}
define internal void @mslang.wake(ptr %word) {
  ret void
}
"""

_PAUSE = {
    "x86": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "arm": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
    "none": ("", "fence seq_cst"),
}

# A team is two words: the state, and how many workers take part.
# Words of the state, each on a cache line of its own: 0 generation, 1 sleepers, 2 open, 3 active, 4 number of ranges,
# 5 the job (task, closure, count, grain, team, the launcher's processor), 6 busy, 7 stop, 8 number of workers,
# 9 whether idle workers stay awake, from 10 on the next iteration of each range, and its end.
_POOL = """
declare i32 @sched_yield()

define internal ptr @mslang.word(ptr %state, i64 %k) alwaysinline {
  %off = shl i64 %k, 7
  %p = getelementptr i8, ptr %state, i64 %off
  ret ptr %p
}

define internal void @mslang.take_part(ptr %state, i64 %worker) {
entry:
  %job = call ptr @mslang.word(ptr %state, i64 5)
  %task = load ptr, ptr %job
  %p1 = getelementptr i64, ptr %job, i64 1
  %closure = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %job, i64 2
  %p3 = getelementptr i64, ptr %job, i64 3
  %grain = load i64, ptr %p3
  %ranges.p = call ptr @mslang.word(ptr %state, i64 4)
  %ranges = load i64, ptr %ranges.p
  %own = and i64 %worker, @LAST@
  br label %range
range:
  %k = phi i64 [ 0, %entry ], [ %k1, %over ]
  %r = phi i64 [ %own, %entry ], [ %r2, %over ]
  %slot = add i64 %r, 10
  %next = call ptr @mslang.word(ptr %state, i64 %slot)
  %last.p = getelementptr i64, ptr %next, i64 1
  %last = load i64, ptr %last.p
  br label %look
look:
  ; Reading leaves the line with the worker whose range it is.
  %seen = load atomic i64, ptr %next monotonic, align 8
  %left = icmp slt i64 %seen, %last
  br i1 %left, label %grab, label %over
grab:
  %from = atomicrmw add ptr %next, i64 %grain seq_cst
  %some = icmp slt i64 %from, %last
  br i1 %some, label %run, label %over
run:
  %end = add i64 %from, %grain
  %beyond = icmp sgt i64 %end, %last
  %to = select i1 %beyond, i64 %last, i64 %end
  call void %task(ptr %closure, i64 %from, i64 %to, i64 %worker)
  br label %look
over:
  %k1 = add i64 %k, 1
  %r1 = add i64 %r, 1
  %wrap = icmp sge i64 %r1, %ranges
  %r2 = select i1 %wrap, i64 0, i64 %r1
  %more = icmp slt i64 %k1, %ranges
  br i1 %more, label %range, label %done
done:
  ret void
}

define void @pool_launch(ptr %team, ptr %task, ptr %closure, i64 %count) {
entry:
  %state = load ptr, ptr %team
  %limit.p = getelementptr i64, ptr %team, i64 1
  %limit = load i64, ptr %limit.p
  %workers.p = call ptr @mslang.word(ptr %state, i64 8)
  %every = load i64, ptr %workers.p
  %limited = icmp slt i64 %limit, %every
  %workers = select i1 %limited, i64 %limit, i64 %every
  %alone = icmp slt i64 %workers, 2
  %few = icmp slt i64 %count, 2
  %serial = or i1 %alone, %few
  br i1 %serial, label %here, label %lock
lock:
  %busy = call ptr @mslang.word(ptr %state, i64 6)
  %swap = cmpxchg ptr %busy, i64 0, i64 1 seq_cst seq_cst
  %got = extractvalue { i64, i1 } %swap, 1
  br i1 %got, label %publish, label %here
here:
  call void %task(ptr %closure, i64 0, i64 %count, i64 0)
  ret void
publish:
  %job = call ptr @mslang.word(ptr %state, i64 5)
  store ptr %task, ptr %job
  %p1 = getelementptr i64, ptr %job, i64 1
  store ptr %closure, ptr %p1
  %p2 = getelementptr i64, ptr %job, i64 2
  store i64 %count, ptr %p2
  %parts = mul i64 %workers, 8
  %share = sdiv i64 %count, %parts
  %tiny = icmp slt i64 %share, 1
  %grain = select i1 %tiny, i64 1, i64 %share
  %p3 = getelementptr i64, ptr %job, i64 3
  store i64 %grain, ptr %p3
  %p4 = getelementptr i64, ptr %job, i64 4
  store i64 %workers, ptr %p4
  %p5 = getelementptr i64, ptr %job, i64 5
  %processor = call i32 @mslang.processor()
  store i32 %processor, ptr %p5
  %most = icmp slt i64 %workers, @RANGES@
  %ranges = select i1 %most, i64 %workers, i64 @RANGES@
  %ranges.p = call ptr @mslang.word(ptr %state, i64 4)
  store i64 %ranges, ptr %ranges.p
  %whole = sdiv i64 %count, %ranges
  %remainder = srem i64 %count, %ranges
  br label %cut
cut:
  %r = phi i64 [ 0, %publish ], [ %r1, %cut ]
  %first = phi i64 [ 0, %publish ], [ %last, %cut ]
  %longer = icmp slt i64 %r, %remainder
  %extra = zext i1 %longer to i64
  %length = add i64 %whole, %extra
  %last = add i64 %first, %length
  %slot = add i64 %r, 10
  %next = call ptr @mslang.word(ptr %state, i64 %slot)
  %last.p = getelementptr i64, ptr %next, i64 1
  store atomic i64 %first, ptr %next monotonic, align 8
  store i64 %last, ptr %last.p
  %r1 = add i64 %r, 1
  %more = icmp slt i64 %r1, %ranges
  br i1 %more, label %cut, label %announce
announce:
  %open = call ptr @mslang.word(ptr %state, i64 2)
  store atomic i64 1, ptr %open seq_cst, align 8
  %generation = call ptr @mslang.word(ptr %state, i64 0)
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  %sleepers = call ptr @mslang.word(ptr %state, i64 1)
  %asleep = load atomic i64, ptr %sleepers seq_cst, align 8
  %any = icmp sgt i64 %asleep, 0
  br i1 %any, label %rouse, label %work
rouse:
  call void @mslang.wake(ptr %generation)
  ; One that was woken on this processor can only leave it while it runs.
  %gave = call i32 @sched_yield()
  br label %work
work:
  call void @mslang.take_part(ptr %state, i64 0)
  store atomic i64 0, ptr %open seq_cst, align 8
  %active = call ptr @mslang.word(ptr %state, i64 3)
  br label %wait
wait:
  %w = phi i64 [ 0, %work ], [ %w1, %rest ], [ %w1, %give ]
  %still = load atomic i64, ptr %active seq_cst, align 8
  %all = icmp eq i64 %still, 0
  br i1 %all, label %unlock, label %rest
rest:
  @PAUSE@
  %w1 = add i64 %w, 1
  %low = and i64 %w1, 1023
  %long = icmp eq i64 %low, 0
  br i1 %long, label %give, label %wait
give:
  ; With more workers than processors the one waited for may need this one.
  %y = call i32 @sched_yield()
  br label %wait
unlock:
  store atomic i64 0, ptr %busy seq_cst, align 8
  ret void
}

define void @pool_worker(ptr %state, i64 %worker, i64 %spins) {
entry:
  %generation = call ptr @mslang.word(ptr %state, i64 0)
  %sleepers = call ptr @mslang.word(ptr %state, i64 1)
  %open = call ptr @mslang.word(ptr %state, i64 2)
  %active = call ptr @mslang.word(ptr %state, i64 3)
  %stop = call ptr @mslang.word(ptr %state, i64 7)
  %awake.p = call ptr @mslang.word(ptr %state, i64 9)
  br label %listen
listen:
  %seen = phi i32 [ 0, %entry ], [ %now, %leave ], [ %now2, %slept ]
  br label %spin
spin:
  %k = phi i64 [ 0, %listen ], [ %k1, %pause ], [ %k1, %give ]
  %now = load atomic i32, ptr %generation seq_cst, align 8
  %changed = icmp ne i32 %now, %seen
  br i1 %changed, label %join, label %tired
tired:
  %k1 = add i64 %k, 1
  %over = icmp sge i64 %k1, %spins
  br i1 %over, label %asked, label %pause
asked:
  %awake = load atomic i64, ptr %awake.p seq_cst, align 8
  %stay = icmp ne i64 %awake, 0
  br i1 %stay, label %pause, label %doze
pause:
  @PAUSE@
  %low = and i64 %k1, 63
  %long = icmp eq i64 %low, 0
  br i1 %long, label %give, label %spin
give:
  ; A worker that was woken on the launcher's processor must not keep it from that.
  %y = call i32 @sched_yield()
  br label %spin
doze:
  %s0 = atomicrmw add ptr %sleepers, i64 1 seq_cst
  call void @mslang.sleep(ptr %generation, i32 %seen)
  %s1 = atomicrmw sub ptr %sleepers, i64 1 seq_cst
  br label %slept
slept:
  %now2 = phi i32 [ %seen, %doze ]
  br label %listen
join:
  %quit = load atomic i64, ptr %stop seq_cst, align 8
  %leaving = icmp ne i64 %quit, 0
  br i1 %leaving, label %end, label %enter
enter:
  %a0 = atomicrmw add ptr %active, i64 1 seq_cst
  %is_open = load atomic i64, ptr %open seq_cst, align 8
  %work = icmp ne i64 %is_open, 0
  br i1 %work, label %belong, label %leave
belong:
  ; The job stays as it is while it is open and a worker is active.
  %job = call ptr @mslang.word(ptr %state, i64 5)
  %p4 = getelementptr i64, ptr %job, i64 4
  %workers = load i64, ptr %p4
  %mine = icmp slt i64 %worker, %workers
  br i1 %mine, label %look, label %leave
look:
  %p5 = getelementptr i64, ptr %job, i64 5
  %launcher = load i32, ptr %p5
  %processor = call i32 @mslang.processor()
  %together = icmp eq i32 %processor, %launcher
  br i1 %together, label %apart, label %take
apart:
  call void @mslang.leave_processor(i32 %launcher)
  br label %take
take:
  call void @mslang.take_part(ptr %state, i64 %worker)
  br label %leave
leave:
  %a1 = atomicrmw sub ptr %active, i64 1 seq_cst
  br label %listen
end:
  ret void
}

define void @pool_stop(ptr %state) {
  %stop = call ptr @mslang.word(ptr %state, i64 7)
  store atomic i64 1, ptr %stop seq_cst, align 8
  call void @pool_rouse(ptr %state)
  ret void
}

; A job that is not open: workers look what there is, and spin again.
define void @pool_rouse(ptr %state) {
  %generation = call ptr @mslang.word(ptr %state, i64 0)
  %old = atomicrmw add ptr %generation, i32 1 seq_cst
  call void @mslang.wake(ptr %generation)
  ret void
}
"""


def pool_ir(platform: str = sys.platform, machine: str | None = None) -> str:
    """The pool's module for an operating system and a processor (default: those of this process)."""
    import platform as system

    name = (machine or system.machine()).lower()
    family = "x86" if name in ("x86_64", "amd64", "i686") else "arm" if name in ("aarch64", "arm64") else "none"
    declaration, pause = _PAUSE[family]
    futex = {"x86": "202", "arm": "98"}.get(family) if platform.startswith("linux") else None
    sleeping = _SLEEP_POLL if futex is None else _SLEEP_FUTEX.replace("@NUMBER@", futex)
    placing = _APART if platform.startswith("linux") else _ANYWHERE
    return (
        declaration
        + sleeping
        + placing
        + _POOL.replace("@PAUSE@", pause).replace("@RANGES@", str(RANGES)).replace("@LAST@", str(RANGES - 1))
    )
