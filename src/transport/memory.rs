//! Shared memory without a name: `memfd`s, which vanish with the last process that holds them, and their mappings.

use crate::error::{Error, Result, Status};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// The unit in which memory is mapped.
pub const PAGE_BYTES: usize = 4096;
/// The unit in which huge pages are mapped.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Anonymous shared memory of this many zeroed bytes; pages appear when they are first written.
pub fn create(name: &CStr, bytes: usize) -> Result<OwnedFd> {
    let what = || format!("cannot create {bytes} bytes of shared memory");
    // SAFETY: `name` is a terminated string; the descriptor that comes back is ours alone.
    let fd = unsafe {
        match libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(Error::os(what(), &io::Error::last_os_error())),
            fd => OwnedFd::from_raw_fd(fd),
        }
    };
    if bytes as u64 > most_file_bytes() {
        let limit = most_file_bytes();
        return Err(Error::new(
            Status::OutOfMemory,
            format!("{}: files may have {limit} bytes (RLIMIT_FSIZE)", what()),
        ));
    }
    let length = i64::try_from(bytes).map_err(|_| Error::new(Status::OutOfMemory, what()))?;
    // SAFETY: plain system call on a descriptor that we own.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), length) } != 0 {
        let error = io::Error::last_os_error();
        return Err(match error.raw_os_error() {
            // More than a file can be: to the caller, more memory than there is.
            Some(libc::EFBIG | libc::EINVAL | libc::ENOSPC) => {
                Error::new(Status::OutOfMemory, format!("{}: {error}", what()))
            }
            _ => Error::os(what(), &error),
        });
    }
    Ok(fd)
}

/// The longest file that this process may make: going beyond is not an error but a signal that ends it.
fn most_file_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is there to be written.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

/// A mapping of shared memory into this process, unmapped on drop.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is only an address range; what may be done in it is up to the protocols of its users.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` bytes, readable and writable.
    pub fn new(fd: &OwnedFd, bytes: usize) -> Result<Mapping> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Mapping { base, bytes }),
            _ => Err(Error::os(format!("cannot map {bytes} bytes of shared memory"), &io::Error::last_os_error())),
        }
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Asks for huge pages and makes the pages of a part exist, near the processor that calls.
    pub fn populate(&self, offset: usize, bytes: usize) -> Result<()> {
        assert!(offset.checked_add(bytes).is_some_and(|end| end <= self.bytes), "part of the mapping");
        if bytes == 0 {
            return Ok(());
        }
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        let length = offset + bytes - first;
        // SAFETY: the range was just checked to lie in this mapping; the advice keeps its contents.
        let failed = unsafe {
            let at = self.base().add(first).cast();
            libc::madvise(at, length, libc::MADV_HUGEPAGE); // refused where shared memory has no huge pages: fine
            libc::madvise(at, length, libc::MADV_POPULATE_WRITE) != 0
        };
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            _ if !failed => Ok(()),
            // Kernels before 5.14 do not know the advice: pages then appear when they are first written.
            Some(libc::EINVAL) => Ok(()),
            _ => Err(Error::new(
                Status::OutOfMemory,
                format!("cannot get the pages of {bytes} bytes of shared memory: {error}"),
            )),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is ours, and whoever holds references into it holds this mapping too.
        unsafe { libc::munmap(self.base().cast(), self.bytes) };
    }
}

/// Bytes of memory that the machine, and the control group of this process, can still give out, as far as they tell.
pub fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = |key: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let machine = (kib("MemAvailable:")? + kib("SwapFree:").unwrap_or(0)) * 1024;
    Some(machine.min(group_bytes().unwrap_or(u64::MAX)))
}

/// What the limit of the control group leaves; `None` without a limit.
fn group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let number = |file: &str| -> Option<u64> {
        std::fs::read_to_string(format!("/sys/fs/cgroup{group}/{file}")).ok()?.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}
