// The emulation of a grid: fibers for threads, a shadow for memory.
#pragma once
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <vector>

struct Index {
    unsigned x, y, z;
};

enum class State { ready, waiting, done };

// What a fault is; the harness has the words (`emulator.py`).
enum class What : int {
    race = 1,          // two threads, one byte, one of them writes, nothing between them
    same_value = 2,    // as `race`, but the later write leaves the bytes as they are
    blocks_race = 3,   // as `race`, between blocks
    unset = 4,         // a read of bytes that nobody wrote
    in_flight = 5,     // an access to bytes that an asynchronous copy may still write
    outside = 6,       // an access outside of every buffer
    misaligned = 7,    // a pointer that is no multiple of its type's alignment
    index = 8,         // an index outside of an array's declared bounds
    divergent = 9,     // threads wait that will never be joined
    trap = 10,
};

struct Access {
    const void* code;    // where, as a code address; or null and
    int line;            // as a line
};

struct Fault {
    int what;
    int write;
    int line, other_line;
    const void *code, *other_code;
    int other_write;
    unsigned block, thread, other_block, other_thread;
    int region;
    int64_t offset;
    int bytes;
};

struct Copy {
    char* to;
    const char* from;
    unsigned bytes, filled;
};

// Where a thread waits, and what it brought.
struct Arrival {
    int operation = 0;
    unsigned first = 0, size = 0;    // the group of threads
    unsigned mask = 0;               // of its lanes, where the group is a warp
    int line = 0;
    void* brought = nullptr;
};

struct Thread {
    jmp_buf start, at;
    bool born = false;
    State state = State::done;
    Index index{};
    unsigned linear = 0;
    Arrival wait;
    std::vector<std::vector<Copy>> groups;
    std::vector<Copy> open;
    char* stack = nullptr;

    // A write that may leave the bytes as they are.
    char* doubted = nullptr;
    unsigned char old[16];
    Fault doubt;
};

enum Operation { BLOCK = 1, VOTE_BLOCK, WARP, SHUFFLE, VOTE, REDUCE, ENTER, LEAVE, WMMA, LDMATRIX, STMATRIX, MMA, ARRIVE = 100 };

// Called by the last that arrives, with what each thread of the group brought (null for one that is not in the mask).
typedef void (*Combine)(void** brought, unsigned first, unsigned size);

extern Thread* now;              // the thread that runs, or null
extern unsigned block_threads, block_number;
extern Index block_index, block_size, grid_size;
extern const int* ignored_lines;
extern int ignored_count;

Thread& thread_of(unsigned linear);
bool ignored(int line);
void arrive(int operation, unsigned first, unsigned size, unsigned mask, int line, void* brought, Combine combine);
void arrive_warp(int operation, unsigned mask, int line, void* brought, Combine combine);
[[noreturn]] void give_up();

// ---- shadow
void shadow_start_launch();
void shadow_start_block();
void shadow_block_barrier();
void shadow_warp_barrier(unsigned warp, unsigned mask);
void shadow_access(unsigned thread, const void* at, unsigned bytes, bool write, Access where);
void shadow_flight(unsigned thread, const void* at, unsigned bytes, bool starts);
void shadow_fragment(void* low, size_t size);
void settle(Thread& t);
void report(Fault f);
