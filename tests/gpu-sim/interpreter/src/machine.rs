//! The rest of the device, as kernels see it: memory, and functions that are not in the module.

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes at once.
    Atomic,
}

/// Who calls a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The block.
    pub block: [u32; 3],
    /// The thread in it; the first of the block in a call that the block makes together.
    pub thread: [u32; 3],
    /// The threads of the block.
    pub block_threads: u32,
}

/// What comes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of the result.
    Done(Vec<u8>),
    /// Not yet: the caller asks again.
    Again,
}

/// The rest of the device.
pub trait Machine: Sync {
    /// Whether these bytes lie in one piece of memory that a kernel may use so; else what is wrong.
    fn check(&self, address: u64, bytes: usize, access: Access) -> Result<(), String>;

    /// Whether all threads of a block must call this function together. It is then called once.
    fn is_block_wide(&self, function: &str) -> bool;

    /// A function that the module only declares.
    fn call(
        &self,
        function: &str,
        arguments: &[Vec<u8>],
        result_bytes: usize,
        caller: Caller,
    ) -> Result<Answer, String>;

    /// What a kernel prints.
    fn print(&self, text: &str) {
        eprint!("{text}");
    }
}
