// Threads of a block as fibers on one thread of the machine; a fiber runs until it waits.
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <random>
#include <utility>

Thread* now = nullptr;
unsigned block_threads = 0, block_number = 0;
Index block_index{}, block_size{}, grid_size{};
const int* ignored_lines = nullptr;
int ignored_count = 0;

namespace {

constexpr size_t STACK = 256 << 10;
constexpr unsigned MOST = 1024;

Thread* threads = nullptr;
char* stacks = nullptr;
jmp_buf scheduler;
void (*entry)(void**) = nullptr;
void** arguments = nullptr;
bool abandoned = false;

struct Group {
    char* data;
    size_t bytes;
    int line;
    unsigned first, size;
};
std::vector<Group> fragments;

[[noreturn]] void to_scheduler() { _longjmp(scheduler, 1); }

void fiber() {
    Thread& self = *now;
    for (;;) {
        if (_setjmp(self.start) == 0) to_scheduler();
        entry(arguments);
        settle(self);
        self.state = State::done;
    }
}

// The first entry of a fiber's stack; afterwards `start` is a place to jump to.
void give_birth(Thread& t) {
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = t.stack;
    context.uc_stack.ss_size = STACK;
    context.uc_link = nullptr;
    makecontext(&context, fiber, 0);
    now = &t;
    if (_setjmp(scheduler) == 0) setcontext(&context);
    t.born = true;
}

void set_up() {
    if (threads) return;
    stacks = (char*)mmap(nullptr, STACK * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    threads = new Thread[MOST];
    for (unsigned i = 0; i < MOST; ++i) threads[i].stack = stacks + i * STACK, threads[i].linear = i;
}

bool resume(Thread& t, bool fresh) {
    now = &t;
    if (_setjmp(scheduler) == 0) _longjmp(fresh ? t.start : t.at, 1);
    now = nullptr;
    return !abandoned;
}

// Which threads will never go on, and why: one fault for the first, with another that is elsewhere.
void report_divergence() {
    const Thread* waits = nullptr;
    for (unsigned i = 0; i < block_threads && !waits; ++i)
        if (threads[i].state == State::waiting) waits = &threads[i];
    const Thread* other = nullptr;
    for (unsigned i = 0; i < block_threads && !other; ++i) {
        const Thread& t = threads[i];
        unsigned lane = i - waits->wait.first;
        bool in = i >= waits->wait.first && lane < waits->wait.size;
        bool named = in && (waits->wait.size > 32 || !waits->wait.mask || waits->wait.mask >> lane & 1);
        if (&t == waits || !named) continue;
        if (t.state == State::done || t.wait.line != waits->wait.line || t.wait.operation != waits->wait.operation ||
            t.wait.mask != waits->wait.mask)
            other = &t;
    }
    Fault f{};
    f.what = (int)What::divergent;
    f.line = waits->wait.line;
    f.thread = waits->linear;
    f.block = f.other_block = block_number;
    f.other_thread = other ? other->linear : waits->linear;
    f.other_line = !other || other->state == State::done ? 0 : other->wait.line;
    f.region = -1;
    report(f);
}

bool run_block(const std::vector<unsigned>& order) {
    shadow_start_block();
    for (auto& g : fragments) free(g.data);
    fragments.clear();
    for (unsigned i = 0; i < block_threads; ++i) {
        Thread& t = threads[i];
        t.index = {i % block_size.x, i / block_size.x % block_size.y, i / block_size.x / block_size.y};
        t.groups.clear();
        t.open.clear();
        t.doubted = nullptr;
        if (!t.born) give_birth(t);
        t.state = State::ready;
        t.wait = Arrival{};
    }
    std::vector<bool> started(block_threads, false);
    for (;;) {
        bool progress = false, alive = false;
        for (unsigned i : order) {
            Thread& t = threads[i];
            if (t.state != State::ready) continue;
            bool fresh = !started[i];
            started[i] = true;
            progress = true;
            if (!resume(t, fresh)) return false;
        }
        for (unsigned i = 0; i < block_threads; ++i) alive |= threads[i].state != State::done;
        if (!alive) return true;
        if (!progress) {
            report_divergence();
            return false;
        }
    }
}

void yield() {
    if (_setjmp(now->at) == 0) to_scheduler();
}

}  // namespace

Thread& thread_of(unsigned linear) { return threads[linear]; }

bool ignored(int line) {
    for (int i = 0; i < ignored_count; ++i)
        if (ignored_lines[i] == line) return true;
    return false;
}

void give_up() {
    abandoned = true;
    to_scheduler();
}

// Every thread of the group that the mask names and that exists has to come to the same place.
void arrive(int operation, unsigned first, unsigned size, unsigned mask, int line, void* brought, Combine combine) {
    settle(*now);
    Thread& self = *now;
    self.wait = {operation, first, size, mask, line, brought};
    self.state = State::waiting;
    void* all[MOST];
    unsigned count = std::min(size, block_threads - first);
    for (unsigned i = 0; i < count; ++i) {
        Thread& t = threads[first + i];
        all[i] = nullptr;
        if (mask && !(mask >> i & 1)) continue;
        const Arrival& w = t.wait;
        if (t.state != State::waiting || w.operation != operation || w.line != line || w.mask != mask || w.first != first ||
            w.size != size) {
            yield();
            return;
        }
        all[i] = w.brought;
    }
    if (combine) combine(all, first, count);
    for (unsigned i = 0; i < count; ++i)
        if (!mask || mask >> i & 1) threads[first + i].state = State::ready;
    yield();
}

void arrive_warp(int operation, unsigned mask, int line, void* brought, Combine combine) {
    unsigned first = now->linear / 32 * 32;
    if (!(mask >> (now->linear - first) & 1)) {
        Fault f{};
        f.what = (int)What::divergent;
        f.line = line;
        f.thread = f.other_thread = now->linear;
        f.block = f.other_block = block_number;
        f.region = -1;
        report(f);
        give_up();
    }
    arrive(operation, first, 32, mask, line, brought, combine);
}

extern "C" {

Index emulated_thread_index() { return now->index; }
Index emulated_block_index() { return block_index; }
Index emulated_block_size() { return block_size; }
Index emulated_grid_size() { return grid_size; }

void emulated_syncthreads(int line) {
    arrive(BLOCK, 0, block_threads, 0, line, &line, [](void** all, unsigned, unsigned) {
        if (!ignored(*(int*)all[0])) shadow_block_barrier();
    });
}

int emulated_syncthreads_vote(int kind, int predicate, int line) {
    struct Vote {
        int kind, value;
    } mine{kind, predicate};
    arrive(VOTE_BLOCK, 0, block_threads, 0, line, &mine, [](void** all, unsigned, unsigned size) {
        int count = 0;
        for (unsigned i = 0; i < size; ++i) count += ((Vote*)all[i])->value;
        for (unsigned i = 0; i < size; ++i) {
            Vote& v = *(Vote*)all[i];
            v.value = v.kind == 0 ? count : v.kind == 1 ? count == (int)size : count > 0;
        }
        shadow_block_barrier();
    });
    return mine.value;
}

void emulated_syncwarp(unsigned mask, int line) {
    struct Sync {
        unsigned mask;
        int line;
    } mine{mask, line};
    arrive_warp(WARP, mask, line, &mine, [](void** all, unsigned first, unsigned size) {
        for (unsigned i = 0; i < size; ++i)
            if (all[i] && !ignored(((Sync*)all[i])->line)) return shadow_warp_barrier(first / 32, ((Sync*)all[i])->mask);
    });
}

uint64_t emulated_shuffle(int kind, unsigned mask, uint64_t value, int lane, int width, int line) {
    struct Shuffle {
        int kind, lane, width;
        uint64_t value, result;
    } mine{kind, lane, width, value, 0};
    arrive_warp(SHUFFLE + 16 * kind, mask, line, &mine, [](void** all, unsigned, unsigned size) {
        for (unsigned i = 0; i < size; ++i) {
            if (!all[i]) continue;
            Shuffle& s = *(Shuffle*)all[i];
            int base = (int)i & ~(s.width - 1), here = (int)i - base, from = here;
            if (s.kind == 0) from = s.lane & (s.width - 1);
            if (s.kind == 1 && here - s.lane >= 0) from = here - s.lane;
            if (s.kind == 2 && here + s.lane < s.width) from = here + s.lane;
            if (s.kind == 3 && (here ^ s.lane) < s.width) from = here ^ s.lane;
            unsigned source = (unsigned)(base + from);
            // A lane that takes no part has no value: NaN, or the greatest integer, shows where it is used.
            s.result = source < size && all[source] ? ((Shuffle*)all[source])->value : ~0ull;
        }
    });
    return mine.result;
}

unsigned emulated_vote(int kind, unsigned mask, int predicate, int line) {
    struct Vote {
        int kind, predicate;
        unsigned result;
    } mine{kind, predicate, 0};
    arrive_warp(VOTE + 16 * kind, mask, line, &mine, [](void** all, unsigned, unsigned size) {
        unsigned ballot = 0, present = 0;
        for (unsigned i = 0; i < size; ++i)
            if (all[i]) present |= 1u << i, ballot |= (unsigned)((Vote*)all[i])->predicate << i;
        for (unsigned i = 0; i < size; ++i) {
            if (!all[i]) continue;
            Vote& v = *(Vote*)all[i];
            v.result = v.kind == 0 ? ballot : v.kind == 1 ? ballot == present : ballot != 0;
        }
    });
    return mine.result;
}

unsigned emulated_reduce(int kind, unsigned mask, unsigned value, int line) {
    struct Part {
        int kind;
        unsigned value, result;
    } mine{kind, value, 0};
    arrive_warp(REDUCE + 16 * kind, mask, line, &mine, [](void** all, unsigned, unsigned size) {
        unsigned sum = 0, conjunction = ~0u, any = 0, parity = 0;
        for (unsigned i = 0; i < size; ++i)
            if (all[i]) {
                unsigned v = ((Part*)all[i])->value;
                sum += v, conjunction &= v, any |= v, parity ^= v;
            }
        for (unsigned i = 0; i < size; ++i)
            if (all[i]) {
                Part& p = *(Part*)all[i];
                p.result = p.kind == 0 ? sum : p.kind == 1 ? conjunction : p.kind == 2 ? any : parity;
            }
    });
    return mine.result;
}

unsigned emulated_active_mask() {
    unsigned first = now->linear / 32 * 32, mask = 0;
    for (unsigned i = 0; i < 32 && first + i < block_threads; ++i) mask |= (threads[first + i].state != State::done) << i;
    return mask;
}

void emulated_trap(int line) {
    Fault f{};
    f.what = (int)What::trap;
    f.line = line;
    f.thread = f.other_thread = now->linear;
    f.block = f.other_block = block_number;
    f.region = -1;
    report(f);
    give_up();
}

// Of a group of threads, one is told to run a statement, the others to pass it by.
int emulated_enter(int size, int line) {
    unsigned first = now->linear / size * size;
    arrive(ENTER, first, size, 0, line, nullptr, nullptr);
    return now->linear == first ? 1 : 2;
}

int emulated_leave(int size, int line) {
    arrive(LEAVE, now->linear / size * size, size, 0, line, nullptr, nullptr);
    return 0;
}

void* emulated_fragment(size_t bytes, int size, int line) {
    unsigned first = now->linear / size * size;
    for (auto& g : fragments)
        if (g.line == line && g.first == first && g.size == (unsigned)size) return g.data;
    char* data = (char*)malloc(bytes);
    memset(data, 0xff, bytes);
    shadow_fragment(data, bytes);
    fragments.push_back({data, bytes, line, first, (unsigned)size});
    return data;
}

void emulated_arrive(int line) { arrive_warp(ARRIVE + line, ~0u, line, nullptr, nullptr); }

// ---- asynchronous copies: the bytes move when their group is waited for
void emulated_copy_async(void* to, const void* from, unsigned bytes, unsigned filled) {
    const void* code = __builtin_return_address(0);
    if ((uintptr_t)to % bytes || (filled == bytes && (uintptr_t)from % bytes)) {
        Fault f{};
        f.what = (int)What::misaligned;
        f.code = code;
        f.thread = f.other_thread = now->linear;
        f.block = f.other_block = block_number;
        f.region = -1;
        report(f);
        give_up();
    }
    if (filled) shadow_access(now->linear, from, filled, false, {code, 0});
    shadow_access(now->linear, to, bytes, true, {code, 0});
    settle(*now);
    memset(to, 0xff, bytes);
    shadow_flight(now->linear, to, bytes, true);
    now->open.push_back({(char*)to, (const char*)from, bytes, filled});
}

void emulated_commit_async() {
    now->groups.push_back(std::move(now->open));
    now->open.clear();
}

void emulated_wait_async(unsigned pending) {
    const void* code = __builtin_return_address(0);
    while (now->groups.size() > pending) {
        for (const Copy& c : now->groups.front()) {
            if (c.filled) shadow_access(now->linear, c.from, c.filled, false, {code, 0});
            shadow_flight(now->linear, c.to, c.bytes, false);
            shadow_access(now->linear, c.to, c.bytes, true, {code, 0});
            settle(*now);
            memcpy(c.to, c.from, c.filled);
            memset(c.to + c.filled, 0, c.bytes - c.filled);
        }
        now->groups.erase(now->groups.begin());
    }
}

// ---- the harness
// Orders of threads and blocks: 0 forward, 1 reversed, 2 shuffled by the seed. Returns whether the grid ran to its end.
int emulation_launch(void (*kernel)(void**), void** args, const unsigned* grid, const unsigned* block, int order,
                     unsigned seed, const int* lines, int line_count) {
    set_up();
    entry = kernel;
    arguments = args;
    grid_size = {grid[0], grid[1], grid[2]};
    block_size = {block[0], block[1], block[2]};
    block_threads = block[0] * block[1] * block[2];
    ignored_lines = lines;
    ignored_count = line_count;
    abandoned = false;
    unsigned blocks = grid[0] * grid[1] * grid[2];
    std::vector<unsigned> of_threads(block_threads), of_blocks(blocks);
    for (unsigned i = 0; i < block_threads; ++i) of_threads[i] = i;
    for (unsigned i = 0; i < blocks; ++i) of_blocks[i] = i;
    std::mt19937 random(seed);
    auto arrange = [&](std::vector<unsigned>& v) {
        if (order == 1) std::reverse(v.begin(), v.end());
        if (order == 2) std::shuffle(v.begin(), v.end(), random);
    };
    arrange(of_blocks);
    arrange(of_threads);
    shadow_start_launch();
    for (unsigned b : of_blocks) {
        block_number = b;
        block_index = {b % grid_size.x, b / grid_size.x % grid_size.y, b / grid_size.x / grid_size.y};
        if (!run_block(of_threads)) return 0;
    }
    return 1;
}
}
