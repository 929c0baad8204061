//! Whether an address is memory of a GPU, asked of a CUDA driver that this process has loaded already.

use libloading::os::unix::{Library, RTLD_NOW, Symbol};
use std::ffi::{c_int, c_void};

/// `cuPointerGetAttribute`.
type GetAttribute = unsafe extern "C" fn(*mut c_void, c_int, u64) -> c_int;

const MEMORY_TYPE: c_int = 2;
const MEMORY_TYPE_DEVICE: u32 = 2;
const IS_MANAGED: c_int = 8;
const SUCCESS: c_int = 0;

/// A driver that can be asked. Asking loads nothing, initialises nothing and allocates nothing.
#[derive(Debug)]
pub struct DriverPointers {
    get_attribute: Symbol<GetAttribute>,
    /// Holds the driver in memory.
    _driver: Library,
}

impl DriverPointers {
    /// The driver, if something in this process has loaded it.
    pub fn find() -> Option<DriverPointers> {
        // SAFETY: nothing is loaded that is not there already, so no initialiser runs; the type is the driver's.
        unsafe {
            let driver = Library::open(Some("libcuda.so.1"), RTLD_NOW | libc::RTLD_NOLOAD).ok()?;
            let get_attribute = driver.get(b"cuPointerGetAttribute\0").ok()?;
            Some(DriverPointers { get_attribute, _driver: driver })
        }
    }

    /// Whether only a GPU can use this address. No for what the driver does not know, and while it is not initialised.
    pub fn is_device_only(&self, address: usize) -> bool {
        self.attribute(MEMORY_TYPE, address) == Some(MEMORY_TYPE_DEVICE)
            && self.attribute(IS_MANAGED, address).is_none_or(|managed| managed & 0xff == 0)
    }

    fn attribute(&self, attribute: c_int, address: usize) -> Option<u32> {
        let mut value = 0u32;
        // SAFETY: both attributes that are asked for fit 4 bytes; the address is only looked up.
        let status = unsafe { (self.get_attribute)((&raw mut value).cast(), attribute, address as u64) };
        (status == SUCCESS).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_nobody_loaded_is_not_found_or_knows_no_host_memory() {
        let word = 0u64;
        if let Some(driver) = DriverPointers::find() {
            assert!(!driver.is_device_only((&raw const word).addr()));
        }
    }
}
