// What is known of every byte of shared and global memory: who wrote it and who read it since when. g++ -fsanitize=thread
// calls the functions `__tsan_*` before each load and store of a kernel; they are defined here.
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>

extern "C" {
// The sections of the file that is loaded are given to `emulation_image`; dynamic shared memory is here.
alignas(1024) static char dynamic_shared[256 << 10];
}

namespace {

// Times count steps at which threads become ordered. 0: never.
struct Byte {
    uint32_t written = 0, read = 0;
    uint32_t write_block = 0, read_block = 0;
    uint32_t write_code = 0, read_code = 0;  // from the start of the image
    uint16_t writer = 0, reader = 0;
    bool set : 1, atomic : 1, flying : 1, several : 1, several_warps : 1, several_blocks : 1;
    Byte() : set(false), atomic(false), flying(false), several(false), several_warps(false), several_blocks(false) {}
};

enum class Kind { global, shared, image, fragment };

struct Region {
    char* low;
    size_t size;
    Kind kind;
    int number;
    std::vector<Byte> bytes;
};

std::vector<Region> regions;
size_t last_region = 0;
std::vector<Fault> faults;
constexpr size_t MOST_FAULTS = 64;
char *shared_low = nullptr, *shared_high = nullptr, *image_low = nullptr, *image_high = nullptr;
size_t dynamic_bytes = 0;
char *stack_low = nullptr, *stack_high = nullptr;

uint32_t clock_now = 1, launch_start = 1, block_start = 1, block_ordered = 1;
uint32_t warp_ordered[32];
struct Partial {
    unsigned warp, mask;
    uint32_t time;
};
std::vector<Partial> partial;
constexpr size_t STACK = 256 << 10;

Region* find(const char* at, size_t bytes) {
    if (last_region < regions.size()) {
        Region& r = regions[last_region];
        if (at >= r.low && at + bytes <= r.low + r.size) return &r;
    }
    for (size_t i = 0; i < regions.size(); ++i) {
        Region& r = regions[i];
        if (at >= r.low && at + bytes <= r.low + r.size) {
            // The image holds the shared variables; it must not be found before them.
            if (r.kind != Kind::image) last_region = i;
            return &r;
        }
    }
    return nullptr;
}

void drop(Kind kind) {
    last_region = 0;
    regions.erase(std::remove_if(regions.begin(), regions.end(), [&](const Region& r) { return r.kind == kind; }), regions.end());
}

// Whether what thread `a` did at `time`, in this block, comes before what `b` does now.
bool ordered(unsigned a, uint32_t time, unsigned b) {
    if (a == b || time < block_ordered) return true;
    if (a / 32 != b / 32) return false;
    if (time < warp_ordered[a / 32]) return true;
    for (const Partial& p : partial)
        if (p.warp == a / 32 && p.time > time && (p.mask >> a % 32 & 1) && (p.mask >> b % 32 & 1)) return true;
    return false;
}

Fault fault(What what, unsigned thread, bool write, Access where, const Region* r, const char* at, unsigned bytes) {
    Fault f{};
    f.what = (int)what;
    f.write = write;
    f.code = where.code;
    f.line = where.line;
    f.block = f.other_block = block_number;
    f.thread = f.other_thread = thread;
    f.region = r ? r->number : -1;
    f.offset = r ? at - r->low : 0;
    f.bytes = (int)bytes;
    return f;
}

enum class Clash { none, write, read };

Clash clash_of(const Byte& b, unsigned thread, bool write, bool atomic) {
    if (b.written >= launch_start && !(atomic && b.atomic)) {
        if (b.write_block != block_number) return Clash::write;
        if (b.written >= block_start && !ordered(b.writer, b.written, thread)) return Clash::write;
    }
    if (!write || b.read < launch_start) return Clash::none;
    if (b.several_blocks || b.read_block != block_number) return Clash::read;
    if (b.read < block_ordered) return Clash::none;
    if (b.several_warps) return Clash::read;
    if (b.several && b.reader / 32 == thread / 32) return b.read < warp_ordered[thread / 32] ? Clash::none : Clash::read;
    if (b.several) return Clash::read;
    return ordered(b.reader, b.read, thread) ? Clash::none : Clash::read;
}

void note_read(Byte& b, unsigned thread, uint32_t code) {
    if (b.read < launch_start) {
        b.several = b.several_warps = b.several_blocks = false;
    } else if (b.read_block != block_number) {
        b.several_blocks = true;
        b.several = b.several_warps = false;
    } else if (b.read < block_ordered) {
        b.several = b.several_warps = false;
    } else if (!b.several_warps && b.reader / 32 == thread / 32 && b.read < warp_ordered[thread / 32]) {
        b.several = false;
    } else if (b.reader != thread) {
        b.several = true;
        if (b.reader / 32 != thread / 32) b.several_warps = true;
    }
    b.read = clock_now;
    b.read_code = code;
    b.reader = (uint16_t)thread;
    b.read_block = block_number;
}

void note_write(Byte& b, unsigned thread, bool atomic, uint32_t code) {
    b.write_code = code;
    b.written = clock_now;
    b.writer = (uint16_t)thread;
    b.write_block = block_number;
    b.set = true;
    b.atomic = atomic;
    b.read = 0;
}

void access(unsigned thread, const char* at, unsigned bytes, bool read, bool write, bool atomic, Access where) {
    Region* r = find(at, bytes);
    if (!r) {
        // Its end may be in no buffer while its start is in one.
        Region* first = find(at, 1);
        report(fault(What::outside, thread, write, where, first, at, bytes));
        give_up();
    }
    // Constants, and the compiler's own flags of variables that it takes to need a constructor.
    if (r->bytes.empty()) return;
    uint32_t code = where.code ? (uint32_t)((const char*)where.code - image_low) : 0;
    Byte* b = &r->bytes[(size_t)(at - r->low)];
    bool reported = false;
    for (unsigned i = 0; i < bytes; ++i, ++b) {
        // What an earlier block did.
        if (r->kind == Kind::shared && b->written < block_start && b->read < block_start) *b = Byte();
        if (b->flying && !reported) {
            report(fault(What::in_flight, thread, write, where, r, at + i, bytes));
            reported = true;
        } else if (read && !b->set && !reported) {
            report(fault(What::unset, thread, write, where, r, at + i, bytes));
            reported = true;
        }
        Clash clash = reported ? Clash::none : clash_of(*b, thread, write, atomic);
        if (clash != Clash::none) {
            bool of_write = clash == Clash::write;
            unsigned other_block = of_write ? b->write_block : b->read_block;
            Fault f = fault(other_block != block_number ? What::blocks_race : What::race, thread, write, where, r, at + i, bytes);
            f.other_block = other_block;
            f.other_thread = of_write ? b->writer : b->reader;
            f.other_code = image_low + (of_write ? b->write_code : b->read_code);
            f.other_write = of_write;
            reported = true;
            Thread& self = thread_of(thread);
            if (of_write && write && !read && bytes <= sizeof self.old) {
                self.doubted = (char*)at;
                self.doubt = f;
                memcpy(self.old, at, bytes);
            } else {
                report(f);
            }
        }
        if (read) note_read(*b, thread, code);
        if (write) note_write(*b, thread, atomic, code);
    }
}

void intercepted(const void* at, unsigned bytes, bool write, const void* code) {
    Thread* self = now;
    if (!self) return;
    const char* p = (const char*)at;
    if (p >= self->stack && p < self->stack + STACK) return;
    if (self->doubted) settle(*self);
    access(self->linear, p, bytes, !write, write, false, {code, 0});
}

}  // namespace

// A write that raced with another is settled once it has happened: did it change anything?
void settle(Thread& t) {
    if (!t.doubted) return;
    char* at = t.doubted;
    t.doubted = nullptr;
    Fault f = t.doubt;
    if (memcmp(at, t.old, (size_t)f.bytes) == 0) f.what = (int)What::same_value;
    report(f);
}

void report(Fault f) {
    for (const Fault& g : faults)
        if (g.what == f.what && g.code == f.code && g.line == f.line && g.write == f.write && g.region == f.region) return;
    if (faults.size() < MOST_FAULTS) faults.push_back(f);
}

void shadow_start_launch() {
    launch_start = ++clock_now;
    faults.clear();
}

void shadow_start_block() {
    block_start = block_ordered = ++clock_now;
    for (uint32_t& t : warp_ordered) t = clock_now;
    partial.clear();
    drop(Kind::fragment);
    for (Region& r : regions) {
        if (r.kind != Kind::shared) continue;
        memset(r.low, 0xff, r.size);
    }
}

void shadow_block_barrier() {
    block_ordered = ++clock_now;
    partial.clear();
}

void shadow_warp_barrier(unsigned warp, unsigned mask) {
    ++clock_now;
    unsigned lanes = std::min(32u, block_threads - warp * 32), all = lanes == 32 ? ~0u : (1u << lanes) - 1;
    if ((mask & all) == all)
        warp_ordered[warp] = clock_now;
    else
        partial.push_back({warp, mask, clock_now});
}

void shadow_access(unsigned thread, const void* at, unsigned bytes, bool write, Access where) {
    access(thread, (const char*)at, bytes, !write, write, false, where);
}

void shadow_fragment(void* low, size_t size) { regions.push_back({(char*)low, size, Kind::fragment, -5, {}}); }

void shadow_flight(unsigned, const void* at, unsigned bytes, bool starts) {
    Region* r = find((const char*)at, bytes);
    if (!r || r->bytes.empty()) return;
    for (unsigned i = 0; i < bytes; ++i) r->bytes[(size_t)((const char*)at - r->low) + i].flying = starts;
}

extern "C" {

void* emulated_dynamic_shared() { return dynamic_shared; }

constexpr unsigned DYNAMIC = 1 << 20;
unsigned emulated_shared_address(const void* pointer) {
    const char* p = (const char*)pointer;
    if (p >= dynamic_shared && p < dynamic_shared + sizeof dynamic_shared) return DYNAMIC + (unsigned)(p - dynamic_shared);
    return 1024 + (unsigned)(p - shared_low);
}
void* emulated_shared_pointer(unsigned address) {
    return address >= DYNAMIC ? dynamic_shared + (address - DYNAMIC) : shared_low + (address - 1024);
}

void emulated_atomic(void* address, int bytes) {
    settle(*now);
    access(now->linear, (const char*)address, (unsigned)bytes, true, true, true, {__builtin_return_address(0), 0});
}

// ---- the harness
void emulation_image(void* low, void* high, void* shared_from, void* shared_to) {
    image_low = (char*)low, image_high = (char*)high, shared_low = (char*)shared_from, shared_high = (char*)shared_to;
}
// What the kernels of the next launches may use: global buffers are added after this.
void emulation_memory(size_t dynamic) {
    regions.clear();
    last_region = 0;
    dynamic_bytes = dynamic;
    auto add = [](char* low, size_t size, Kind kind, int number) {
        if (!size) return;
        regions.push_back({low, size, kind, number, {}});
        if (kind != Kind::image) regions.back().bytes.resize(size);
    };
    add(shared_low, (size_t)(shared_high - shared_low), Kind::shared, -2);
    add(dynamic_shared, dynamic, Kind::shared, -3);
}
void emulation_constants() { regions.push_back({image_low, (size_t)(image_high - image_low), Kind::image, -4, {}}); }
void emulation_buffer(int number, void* low, size_t size, int set) {
    if (!size) return;
    regions.push_back({(char*)low, size, Kind::global, number, {}});
    regions.back().bytes.resize(size);
    if (set)
        for (Byte& b : regions.back().bytes) b.set = true;
}
// Other dynamic shared memory for the next launch; global memory stays as it is.
void emulation_dynamic(size_t bytes) {
    regions.erase(std::remove_if(regions.begin(), regions.end(), [](const Region& r) { return r.number == -3; }), regions.end());
    last_region = 0;
    if (!bytes) return;
    regions.push_back({dynamic_shared, bytes, Kind::shared, -3, {}});
    regions.back().bytes.resize(bytes);
}
int emulation_faults(Fault* out, int most) {
    int n = std::min(most, (int)faults.size());
    std::copy(faults.begin(), faults.begin() + n, out);
    return n;
}

// ---- what the compiler calls
#define TSAN(n)                                                                                                        \
    void __tsan_read##n(void* p) { intercepted(p, n, false, __builtin_return_address(0)); }                            \
    void __tsan_write##n(void* p) { intercepted(p, n, true, __builtin_return_address(0)); }                            \
    void __tsan_unaligned_read##n(void* p) { intercepted(p, n, false, __builtin_return_address(0)); }                  \
    void __tsan_unaligned_write##n(void* p) { intercepted(p, n, true, __builtin_return_address(0)); }
TSAN(1) TSAN(2) TSAN(4) TSAN(8) TSAN(16)
void __tsan_read_range(void* p, unsigned long n) { intercepted(p, (unsigned)n, false, __builtin_return_address(0)); }
void __tsan_write_range(void* p, unsigned long n) { intercepted(p, (unsigned)n, true, __builtin_return_address(0)); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

struct Place {
    const char* file;
    uint32_t line, column;
};
static void undefined(What what, const Place* place) {
    if (!now) return;
    Fault f = fault(what, now->linear, false, {nullptr, (int)place->line}, nullptr, nullptr, 0);
    report(f);
    give_up();
}
void __ubsan_handle_type_mismatch_v1(Place* place, void*) { undefined(What::misaligned, place); }
void __ubsan_handle_out_of_bounds(Place* place, void*) { undefined(What::index, place); }
}
