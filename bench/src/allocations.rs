//! Counts allocations, so that "allocates nothing" is a figure and not a hope.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);
static IS_WEIGHED: AtomicBool = AtomicBool::new(false);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations so far, in all threads.
pub fn count() -> u64 {
    COUNT.load(Relaxed)
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
        COUNT.fetch_add(1, Relaxed);
        add(layout.size() as i64);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Relaxed);
        add(size as i64 - layout.size() as i64);
        unsafe { System.realloc(pointer, layout, size) }
    }
}
