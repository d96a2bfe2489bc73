//! Counts allocations, so that "allocates nothing" is a figure and not a hope.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);
static IS_COUNTED: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);
static IS_WEIGHED: AtomicBool = AtomicBool::new(false);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` returns, and the allocations of all threads meanwhile. At other times nothing is counted: it would cost an allocation a quarter
/// of its time, and whoever allocates more would look dearer than it is.
pub fn count<T>(work: impl FnOnce() -> T) -> (T, u64) {
    COUNT.store(0, Relaxed);
    IS_COUNTED.store(true, Relaxed);
    let done = work();
    IS_COUNTED.store(false, Relaxed);
    (done, COUNT.load(Relaxed))
}

fn count_one() {
    if IS_COUNTED.load(Relaxed) {
        COUNT.fetch_add(1, Relaxed);
    }
}

/// What `make` returns, and the bytes that it keeps allocated.
pub fn weigh<T>(make: impl FnOnce() -> T) -> (T, i64) {
    BYTES.store(0, Relaxed);
    IS_WEIGHED.store(true, Relaxed);
    let made = make();
    IS_WEIGHED.store(false, Relaxed);
    (made, BYTES.load(Relaxed))
}

fn add(bytes: i64) {
    if IS_WEIGHED.load(Relaxed) {
        BYTES.fetch_add(bytes, Relaxed);
    }
}

// SAFETY: every call is handed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_one();
        add(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_one();
        add(size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }
}
