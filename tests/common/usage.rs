//! What this process uses: allocations, memory, descriptors, threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The system's allocator, counted.
pub struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.fetch_add(1, Relaxed);
    // A thread that is being torn down no longer counts for itself.
    let _ = OF_THREAD.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // Giving back is no allocation, but has no place in an execution either.
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Calls of the allocator by all threads so far.
pub fn allocations() -> u64 {
    ALLOCATIONS.load(Relaxed)
}

/// Calls of the allocator by this thread so far.
pub fn allocations_of_this_thread() -> u64 {
    OF_THREAD.with(Cell::get)
}

/// A line of `/proc/self/status` in kibibytes, such as `VmRSS` or `VmPeak`.
pub fn status_kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process has a status");
    let line = status.lines().find(|line| line.starts_with(name)).expect("the status has this line");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// Open descriptors.
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("this process has descriptors").count()
}

/// Mapped regions.
pub fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").expect("this process has mappings").lines().count()
}

/// Threads.
pub fn threads() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process has a status");
    let line = status.lines().find(|line| line.starts_with("Threads:")).expect("the status has this line");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}
