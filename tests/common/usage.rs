//! What this process uses: allocations, memory, descriptors, threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The system's allocator, counted.
pub struct CountingAllocator;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OF_THREAD: Cell<u64> = const { Cell::new(0) };
    static IS_PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// Runs a part that is not the library's, and whose allocations do not count.
pub fn uncounted<T>(part: impl FnOnce() -> T) -> T {
    let before = IS_PAUSED.replace(true);
    let result = part();
    IS_PAUSED.set(before);
    result
}

fn count() {
    if IS_PAUSED.try_with(Cell::get).unwrap_or(false) {
        return;
    }
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

/// A line of `/proc/self/status` in bytes, such as `VmPeak`, read without an allocation.
pub fn status_bytes(name: &str) -> u64 {
    let mut buffer = [0u8; 8192];
    // SAFETY: the path is terminated, the buffer as long as said, and the descriptor our own.
    let length = unsafe {
        let fd = libc::open(c"/proc/self/status".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len());
        libc::close(fd);
        usize::try_from(length).expect("this process has a status")
    };
    let text = std::str::from_utf8(&buffer[..length]).expect("the status is text");
    let line = text.lines().find(|line| line.starts_with(name)).expect("the status has this line");
    let number: u64 = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    if line.ends_with("kB") { number * 1024 } else { number }
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
    status_bytes("Threads:")
}

/// Waits until every other thread sleeps: one that was just started still allocates for itself.
pub fn settle() {
    // SAFETY: always succeeds, touches nothing.
    let own = unsafe { libc::gettid() }.to_string();
    let sleeps = |task: &std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
    };
    let mut quiet = 0;
    while quiet < 3 {
        let tasks = std::fs::read_dir("/proc/self/task").expect("this process has threads").flatten();
        let all = tasks.filter(|task| task.file_name().to_string_lossy() != own).all(|task| sleeps(&task));
        quiet = if all { quiet + 1 } else { 0 };
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Lets the peak of resident memory, `VmHWM`, start again from what is resident now.
pub fn reset_peak() {
    std::fs::write("/proc/self/clear_refs", "5").expect("the peak can be reset");
}
