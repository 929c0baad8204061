//! The way between this rank and one of another node in one plan: messages from and into a few buffers on each side.
//!
//! To the executor it is what a ring is between ranks of one node: pieces go in at one end and come out, in order, at
//! the other. All buffers exist from the start. The receives of an operation are posted before anything is sent, as
//! many as there are buffers; each is posted again as soon as its piece has been read.

use super::boot::Message;
use super::communicator::Communicator;
use crate::error::{Error, Result, Status};

/// Buffers on each side: one is filled or read while the other is under way. More would leave the cache.
const DEPTH: usize = 2;

/// The most bytes of one piece: packed and read in the cache, long enough for any network; less for many ranks.
pub fn piece_bytes(size: usize) -> usize {
    ((64 << 20) / size.next_power_of_two()).clamp(64 << 10, 256 << 10)
}

/// One peer's lane, both ways.
#[derive(Debug)]
pub struct Lane {
    communicator: Communicator,
    peer: usize,
    tag: i32,
    send: Buffers,
    receive: Buffers,
    /// Receives that are still to be posted for the operation under way.
    to_post: usize,
    /// The length of the oldest piece, once it is there.
    arrived: Option<usize>,
}

/// The buffers of one direction, used in turn.
#[derive(Debug)]
struct Buffers {
    memory: Vec<Line>,
    /// Of each buffer.
    bytes: usize,
    messages: [Option<Message>; DEPTH],
    /// The buffer to fill next, or the one whose message is the oldest.
    next: usize,
    /// Receives that are posted and not read, from `next` on.
    posted: usize,
}

#[repr(align(64))]
#[derive(Clone, Copy, Debug)]
struct Line(#[allow(dead_code)] [u8; 64]);

impl Buffers {
    /// As many buffers as `pieces` of at most `bytes` bytes can use.
    fn new(pieces: usize, bytes: usize) -> Result<Buffers> {
        // A fault in the place of a piece may be longer than the piece.
        let bytes = if pieces == 0 { 0 } else { bytes.max(FAULT_BYTES + 1).next_multiple_of(size_of::<Line>()) };
        let lines = bytes / size_of::<Line>() * pieces.min(DEPTH);
        let mut memory = Vec::new();
        let too_much = |_| Error::new(Status::OutOfMemory, format!("no {lines} cache lines for messages"));
        memory.try_reserve_exact(lines).map_err(too_much)?;
        memory.resize(lines, Line([0; 64]));
        Ok(Buffers { memory, bytes, messages: [None; DEPTH], next: 0, posted: 0 })
    }

    fn count(&self) -> usize {
        (self.memory.len() * size_of::<Line>()).checked_div(self.bytes).unwrap_or(0)
    }

    fn place(&mut self, index: usize) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(index * self.bytes)
    }
}

/// What came from the peer.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// A piece, there until it is popped.
    Piece(*const u8),
    /// The status with which the peer failed.
    Fault(i32),
}

/// What the number of pieces and the bytes of the largest are, in one direction.
pub type Load = (usize, usize);

/// Bytes of a fault, unless the piece in whose place it comes has as many.
const FAULT_BYTES: usize = 8;

/// A fault is told from a piece by its length.
fn fault_bytes(piece_bytes: usize) -> usize {
    if piece_bytes == FAULT_BYTES { FAULT_BYTES + 1 } else { FAULT_BYTES }
}

impl Lane {
    /// A lane to a rank of another node.
    pub fn new(communicator: &Communicator, peer: usize, tag: i32, send: Load, receive: Load) -> Result<Lane> {
        Ok(Lane {
            communicator: communicator.clone(),
            peer,
            tag,
            send: Buffers::new(send.0, send.1)?,
            receive: Buffers::new(receive.0, receive.1)?,
            to_post: 0,
            arrived: None,
        })
    }

    /// Begins an operation in which so many pieces will come.
    pub fn start(&mut self, pieces: usize) -> Result<()> {
        // Those that are left from an operation that ended with a fault serve this one.
        self.to_post = pieces.saturating_sub(self.receive.posted);
        self.post()
    }

    fn post(&mut self) -> Result<()> {
        let count = self.receive.count();
        while self.to_post > 0 && self.receive.posted < count {
            let index = (self.receive.next + self.receive.posted) % count;
            let (place, bytes) = (self.receive.place(index), self.receive.bytes);
            // SAFETY: the buffer is the message's until it is complete or cancelled, see `abandon`.
            let message = unsafe { self.communicator.messages().receive(self.peer, self.tag, place, bytes) }?;
            self.receive.messages[index] = Some(message);
            self.receive.posted += 1;
            self.to_post -= 1;
        }
        Ok(())
    }

    /// What has come in the place of the next piece, of `piece_bytes` bytes, if anything has. After a piece
    /// [`Lane::pop`]; after a fault no more will come in this operation.
    pub fn arrival(&mut self, piece_bytes: usize) -> Result<Option<Arrival>> {
        let index = self.receive.next;
        if self.arrived.is_none() {
            self.arrived = self.communicator.messages().take_complete(&mut self.receive.messages[index])?;
        }
        let Some(bytes) = self.arrived else { return Ok(None) };
        let place = self.receive.place(index).cast_const();
        if bytes == piece_bytes {
            return Ok(Some(Arrival::Piece(place)));
        }
        if bytes != fault_bytes(piece_bytes) {
            return Err(Error::new(
                Status::Internal,
                format!("rank {} sent {bytes} bytes in the place of {piece_bytes}", self.peer),
            ));
        }
        // SAFETY: at least four bytes have arrived there.
        let status = unsafe { place.cast::<i32>().read_unaligned() };
        self.to_post = 0;
        self.pop()?;
        Ok(Some(Arrival::Fault(status)))
    }

    /// The oldest piece has been read.
    pub fn pop(&mut self) -> Result<()> {
        self.arrived = None;
        self.receive.next = (self.receive.next + 1) % self.receive.count();
        self.receive.posted -= 1;
        self.post()
    }

    /// Where to put the next piece, if there is room.
    pub fn room(&mut self) -> Result<Option<*mut u8>> {
        let index = self.send.next;
        Ok(if self.is_sent(index)? { Some(self.send.place(index)) } else { None })
    }

    /// Sends what was put there.
    pub fn push(&mut self, bytes: usize) -> Result<()> {
        let index = self.send.next;
        let place = self.send.place(index).cast_const();
        // SAFETY: the buffer is the message's until it is complete, see `abandon`.
        let message = unsafe { self.communicator.messages().send(self.peer, self.tag, place, bytes) }?;
        self.send.messages[index] = Some(message);
        self.send.next = (index + 1) % self.send.count();
        Ok(())
    }

    /// Sends the status of a fault in the place of a piece of `piece_bytes` bytes, for which there was room.
    pub fn push_fault(&mut self, status: i32, piece_bytes: usize) -> Result<()> {
        let place = self.send.place(self.send.next).cast::<i32>();
        // SAFETY: every buffer has room for a fault.
        unsafe { place.write_unaligned(status) };
        self.push(fault_bytes(piece_bytes))
    }

    /// Whether everything has left.
    pub fn is_flushed(&mut self) -> Result<bool> {
        for index in 0..self.send.count() {
            if !self.is_sent(index)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_sent(&mut self, index: usize) -> Result<bool> {
        let message = &mut self.send.messages[index];
        self.communicator.messages().take_complete(message)?;
        Ok(message.is_none())
    }

    /// Ends the lane in whatever state it is: nothing can be sent or received any more.
    pub fn abandon(&mut self) {
        let messages = self.communicator.messages();
        // Where one cannot be cancelled, the others are not even tried: that may take its time.
        let cancelled =
            self.receive.messages.iter_mut().filter_map(Option::take).all(|message| messages.cancel(message).is_ok());
        self.receive.posted = 0;
        // What the runtime may still use is never given back.
        if !cancelled {
            std::mem::forget(std::mem::take(&mut self.receive.memory));
        }
        if self.send.messages.iter().any(Option::is_some) {
            self.send.messages = [None; DEPTH];
            std::mem::forget(std::mem::take(&mut self.send.memory));
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.abandon();
    }
}
