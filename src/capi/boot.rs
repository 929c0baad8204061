//! A communicator made from two functions of the caller's: the boot table.

use super::boundary::null;
use crate::error::{Error, Result, Status};
use crate::transport::{Boot, Message, Messages};
use std::ffi::{c_char, c_void};
use std::{mem, ptr};

/// What MPI promises too.
const LEAST_MOST_TAG: i32 = 32767;

/// What a runtime tells boxwise about its ranks, for BOXWISE_COMM_BOOT: MPI, a job manager or threads of one
/// process can all fill it.
///
/// Without the members from `isend` on, all NULL or cut off by struct_size, the table is read during the call that it
/// is passed to and not kept, and all ranks must be on one node. With them, ranks of different nodes exchange data
/// through these functions: they and the context must work until `release` is called, or, where that is NULL, until
/// the last object made with the communicator is destroyed.
///
/// The functions are called by the thread that makes a boxwise call or, if `any_thread` is 1, by other threads as
/// well. All ranks call `allgather` and `barrier` in the same order. All return 0, or any other number for a
/// failure, which makes the call fail with BOXWISE_ERROR_TRANSPORT. They must not throw C++ exceptions nor leave by
/// longjmp.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct boxwise_boot_t {
    /// sizeof(boxwise_boot_t). Later versions may add members at the end.
    pub struct_size: usize,
    /// Passed to the functions as it is; may be NULL.
    pub context: *mut c_void,
    /// This process or thread, 0 to size - 1.
    pub rank: i32,
    /// The number of ranks, at least 1, the same on all.
    pub size: i32,
    /// Collective: gives all ranks what each of them has. `mine` points to `bytes` bytes; `all` has room for
    /// size * bytes, rank 0's first. `bytes` is the same on all ranks, and the two do not overlap.
    pub allgather:
        Option<unsafe extern "C" fn(context: *mut c_void, mine: *const c_void, all: *mut c_void, bytes: usize) -> i32>,
    /// Collective: returns when all ranks have called it.
    pub barrier: Option<unsafe extern "C" fn(context: *mut c_void) -> i32>,
    /// Starts to send `bytes` bytes, 0 to 2^30, to rank `peer`, which is never this one. Messages of one tag, 0 to
    /// most_tag, from one rank to another arrive in the order in which they were sent. The data stays as it is until
    /// `test` says that the message is complete. `request` receives what `test` needs. Does not block.
    pub isend: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            peer: i32,
            tag: i32,
            data: *const c_void,
            bytes: usize,
            request: *mut u64,
        ) -> i32,
    >,
    /// Starts to receive a message of at most `bytes` bytes from rank `peer`. Does not block.
    pub irecv: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            peer: i32,
            tag: i32,
            data: *mut c_void,
            bytes: usize,
            request: *mut u64,
        ) -> i32,
    >,
    /// Sets `complete` to 1 when the message is complete, else to 0. When it is complete the request is gone, and
    /// `bytes` receives the length of the message (of one that was sent: any value). Does not block. After a failure
    /// `request` is what `cancel` takes.
    pub test: Option<
        unsafe extern "C" fn(context: *mut c_void, request: *mut u64, complete: *mut i32, bytes: *mut usize) -> i32,
    >,
    /// Ends a receive that `test` has not called complete: when it returns 0, the request is gone and its memory not
    /// touched any more. It must not wait for other ranks; where a receive cannot be ended it returns a failure, and
    /// its memory is never used again.
    pub cancel: Option<unsafe extern "C" fn(context: *mut c_void, request: *mut u64) -> i32>,
    /// Sets `peer` to a rank from which a message with this tag waits that no irecv has taken, or to -1.
    pub probe: Option<unsafe extern "C" fn(context: *mut c_void, tag: i32, peer: *mut i32) -> i32>,
    /// The table and its context are not used any more; called once, also where the table is refused. Never called
    /// after the communicator broke (BOXWISE_ERROR_PEER_LOST, _TIMEOUT): messages may be under way then. May be NULL.
    pub release: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Writes the text of a number that one of the functions returned, with its NUL, into `text` of `capacity` bytes.
    /// May be NULL.
    pub error_text: Option<unsafe extern "C" fn(context: *mut c_void, code: i32, text: *mut c_char, capacity: usize)>,
    /// The largest tag, at least 32767. The least of all ranks is the limit.
    pub most_tag: i32,
    /// 1 if any thread may call isend, irecv, test, cancel and probe, also several at once; else 0.
    pub any_thread: i32,
}

/// The size of the table in version 0.1.0, before it had messages.
const LEAST_BYTES: usize = mem::offset_of!(boxwise_boot_t, isend);

fn wrong<T>(what: String) -> Result<T> {
    Err(Error::invalid_argument(format!("boxwise_boot_t: {what}")))
}

/// A boot table whose members were checked; released on drop.
#[derive(Debug)]
pub struct CheckedBoot {
    table: boxwise_boot_t,
    rank: usize,
    size: usize,
    allgather: AllgatherFn,
    barrier: BarrierFn,
    messages: Option<MessageFns>,
}

type AllgatherFn = unsafe extern "C" fn(*mut c_void, *const c_void, *mut c_void, usize) -> i32;
type BarrierFn = unsafe extern "C" fn(*mut c_void) -> i32;

/// The functions of the table that are there together or not at all.
#[derive(Clone, Copy, Debug)]
struct MessageFns {
    isend: unsafe extern "C" fn(*mut c_void, i32, i32, *const c_void, usize, *mut u64) -> i32,
    irecv: unsafe extern "C" fn(*mut c_void, i32, i32, *mut c_void, usize, *mut u64) -> i32,
    test: unsafe extern "C" fn(*mut c_void, *mut u64, *mut i32, *mut usize) -> i32,
    cancel: unsafe extern "C" fn(*mut c_void, *mut u64) -> i32,
    probe: unsafe extern "C" fn(*mut c_void, i32, *mut i32) -> i32,
}

// SAFETY: the table says from which threads its functions may be called, and the transport keeps to that.
unsafe impl Send for CheckedBoot {}
// SAFETY: as above.
unsafe impl Sync for CheckedBoot {}

impl CheckedBoot {
    /// Reads and checks the table.
    ///
    /// # Safety
    /// `boot` is NULL or points to a `boxwise_boot_t` of `struct_size` bytes, whose functions do what its
    /// comments say for as long as the result lives.
    pub unsafe fn new(boot: *const boxwise_boot_t) -> Result<CheckedBoot> {
        if boot.is_null() {
            return Err(null("comm_handle", "a boxwise_boot_t"));
        }
        // SAFETY: the table has at least its first member. Unaligned, because a void pointer may be.
        let struct_size = unsafe { boot.cast::<usize>().read_unaligned() };
        if struct_size < LEAST_BYTES {
            return wrong(format!("struct_size is {struct_size}, must be at least {LEAST_BYTES}"));
        }
        // Whole members only: half a pointer must not be called.
        const WORD_BYTES: usize = mem::size_of::<*const c_void>();
        let bytes = struct_size.min(mem::size_of::<boxwise_boot_t>()) / WORD_BYTES * WORD_BYTES;
        // SAFETY: all-zero bytes are a table without functions; as many bytes as both have are then copied.
        let table = unsafe {
            let mut table: boxwise_boot_t = mem::zeroed();
            ptr::copy_nonoverlapping(boot.cast::<u8>(), (&raw mut table).cast(), bytes);
            table
        };
        CheckedBoot::check(table).inspect_err(|_| {
            if let Some(release) = table.release {
                // SAFETY: the caller vouched for the function, and nobody uses the table.
                unsafe { release(table.context) };
            }
        })
    }

    fn check(table: boxwise_boot_t) -> Result<CheckedBoot> {
        let (Ok(rank), Ok(size)) = (usize::try_from(table.rank), usize::try_from(table.size)) else {
            return wrong(format!("rank is {} of {}, neither may be negative", table.rank, table.size));
        };
        if rank >= size {
            return wrong(format!("rank is {rank} of {size}, must be 0 to size - 1"));
        }
        let Some(allgather) = table.allgather else { return wrong("allgather is NULL".into()) };
        let Some(barrier) = table.barrier else { return wrong("barrier is NULL".into()) };
        let messages = match (table.isend, table.irecv, table.test, table.cancel, table.probe) {
            (Some(isend), Some(irecv), Some(test), Some(cancel), Some(probe)) => {
                if table.most_tag < LEAST_MOST_TAG {
                    return wrong(format!("most_tag is {}, must be at least {LEAST_MOST_TAG}", table.most_tag));
                }
                Some(MessageFns { isend, irecv, test, cancel, probe })
            }
            (None, None, None, None, None) => None,
            _ => {
                return wrong("isend, irecv, test, cancel and probe must be given together or be NULL together".into());
            }
        };
        Ok(CheckedBoot { table, rank, size, allgather, barrier, messages })
    }

    fn outcome(&self, function: &str, returned: i32) -> Result<()> {
        if returned == 0 {
            return Ok(());
        }
        let detail = format!("rank {}: the {function} of boxwise_boot_t returned {returned}", self.rank);
        let text = self.table.error_text.map(|error_text| {
            let mut text = [0u8; 512];
            // SAFETY: `new`'s caller vouched for the function, which gets as much room as it is told.
            unsafe { error_text(self.table.context, returned, text.as_mut_ptr().cast(), text.len()) };
            let end = text.iter().position(|&byte| byte == 0).unwrap_or(text.len());
            String::from_utf8_lossy(&text[..end]).into_owned()
        });
        let detail = text.map_or(detail.clone(), |text| format!("{detail}: {text}"));
        Err(Error::new(Status::Transport, detail))
    }

    fn messages(&self) -> &MessageFns {
        self.messages.as_ref().expect("into_messages saw that they are there")
    }
}

impl Drop for CheckedBoot {
    fn drop(&mut self) {
        if let Some(release) = self.table.release {
            // SAFETY: `new`'s caller vouched for the function, and nobody uses the table any more.
            unsafe { release(self.table.context) };
        }
    }
}

impl Boot for CheckedBoot {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        if all.len() != mine.len() * self.size {
            return Err(Error::new(Status::Internal, "the allgather of a boot table was given too little room"));
        }
        // SAFETY: `new`'s caller vouched for the function; the room was just checked.
        let returned =
            unsafe { (self.allgather)(self.table.context, mine.as_ptr().cast(), all.as_mut_ptr().cast(), mine.len()) };
        self.outcome("allgather", returned)
    }

    fn barrier(&self) -> Result<()> {
        // SAFETY: `new`'s caller vouched for the function.
        let returned = unsafe { (self.barrier)(self.table.context) };
        self.outcome("barrier", returned)
    }

    fn most_tag(&self) -> Option<i32> {
        self.messages.map(|_| self.table.most_tag)
    }

    fn into_messages(self: Box<Self>) -> Option<Box<dyn Messages>> {
        if self.messages.is_some() { Some(self) } else { None }
    }
}

impl Messages for CheckedBoot {
    unsafe fn send(&self, peer: usize, tag: i32, data: *const u8, bytes: usize) -> Result<Message> {
        let mut request = 0;
        // SAFETY: `new`'s caller vouched for the function, this one's for the data.
        let returned =
            unsafe { (self.messages().isend)(self.table.context, peer as i32, tag, data.cast(), bytes, &mut request) };
        self.outcome("isend", returned).map(|()| Message(request))
    }

    unsafe fn receive(&self, peer: usize, tag: i32, data: *mut u8, bytes: usize) -> Result<Message> {
        let mut request = 0;
        // SAFETY: `new`'s caller vouched for the function, this one's for the data.
        let returned =
            unsafe { (self.messages().irecv)(self.table.context, peer as i32, tag, data.cast(), bytes, &mut request) };
        self.outcome("irecv", returned).map(|()| Message(request))
    }

    fn test(&self, message: &mut Message) -> Result<Option<usize>> {
        let (mut complete, mut bytes) = (0, 0);
        // SAFETY: `new`'s caller vouched for the function.
        let returned = unsafe { (self.messages().test)(self.table.context, &mut message.0, &mut complete, &mut bytes) };
        self.outcome("test", returned).map(|()| (complete != 0).then_some(bytes))
    }

    fn cancel(&self, mut message: Message) -> Result<()> {
        // SAFETY: `new`'s caller vouched for the function.
        let returned = unsafe { (self.messages().cancel)(self.table.context, &mut message.0) };
        self.outcome("cancel", returned)
    }

    fn probe(&self, tag: i32) -> Result<Option<usize>> {
        let mut peer = -1;
        // SAFETY: `new`'s caller vouched for the function.
        let returned = unsafe { (self.messages().probe)(self.table.context, tag, &mut peer) };
        self.outcome("probe", returned).map(|()| usize::try_from(peer).ok().filter(|&peer| peer < self.size))
    }

    fn any_thread(&self) -> bool {
        self.table.any_thread == 1
    }
}
