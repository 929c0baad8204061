//! Boot tables over threads: communicators of any subset of a test's ranks, on one node or on pretended ones between
//! which messages go.

use super::usage::uncounted;
use boxwise::{Boot, Error, Message, Messages, Result, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

struct Meeting {
    barrier: Barrier,
    table: Mutex<Vec<Vec<u8>>>,
}

/// One member of a group of threads that can exchange bytes.
pub struct ThreadBoot {
    rank: usize,
    size: usize,
    pub node: usize,
    meeting: Arc<Meeting>,
    post: Option<Arc<Mutex<PostOffice>>>,
    /// As the runtime says of its messages.
    pub most_tag: i32,
    pub any_thread: bool,
    /// How many messages this rank can send before the runtime fails.
    pub sends_left: u64,
    /// What fails on this rank while it is set.
    pub faults: Arc<Faults>,
    /// Which message it sends only after [`LATE`].
    pub late_send: Option<u64>,
    /// Held by the messages until the library gives them back.
    pub held: Arc<()>,
}

/// What the runtime of a rank fails to do.
#[derive(Debug, Default)]
pub struct Faults {
    pub send: AtomicBool,
    pub receive: AtomicBool,
    /// The request is gone then.
    pub test: AtomicBool,
    pub cancel: AtomicBool,
}

fn check(fault: &AtomicBool) -> Result<()> {
    if fault.load(Relaxed) { Err(Error::new(Status::Transport, "the runtime fails")) } else { Ok(()) }
}

/// Longer than a rank waits between two looks at the health of others.
const LATE: Duration = Duration::from_millis(60);

/// The members of a new group on one node.
pub fn group(size: usize) -> Vec<ThreadBoot> {
    members(&vec![0; size], None)
}

/// The members of a new group, each on the node of that number.
pub fn group_on_nodes(nodes: &[usize]) -> Vec<ThreadBoot> {
    members(nodes, Some(Arc::default()))
}

fn members(nodes: &[usize], post: Option<Arc<Mutex<PostOffice>>>) -> Vec<ThreadBoot> {
    let size = nodes.len();
    let meeting = Arc::new(Meeting { barrier: Barrier::new(size), table: Mutex::new(vec![Vec::new(); size]) });
    let member = |(rank, &node)| ThreadBoot {
        rank,
        size,
        node,
        meeting: meeting.clone(),
        post: post.clone(),
        most_tag: 32767,
        any_thread: true,
        sends_left: u64::MAX,
        faults: Arc::default(),
        late_send: None,
        held: Arc::default(),
    };
    nodes.iter().enumerate().map(member).collect()
}

impl ThreadBoot {
    /// Takes its messages away.
    pub fn silence(&mut self) {
        self.post = None;
    }
}

impl Boot for ThreadBoot {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn allgather(&self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), mine.len() * self.size, "the library asks for a whole table");
        self.meeting.table.lock().unwrap()[self.rank] = mine.to_vec();
        self.meeting.barrier.wait();
        all.copy_from_slice(&self.meeting.table.lock().unwrap().concat());
        self.meeting.barrier.wait();
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.meeting.barrier.wait();
        Ok(())
    }

    fn node(&self) -> String {
        self.node.to_string()
    }

    fn most_tag(&self) -> Option<i32> {
        self.post.as_ref().map(|_| self.most_tag)
    }

    fn into_messages(self: Box<Self>) -> Option<Box<dyn Messages>> {
        Some(Box::new(Mail {
            rank: self.rank,
            post: self.post?,
            most_tag: self.most_tag,
            any_thread: self.any_thread,
            sends_left: AtomicU64::new(self.sends_left),
            faults: self.faults,
            late_send: self.late_send,
            sent: AtomicU64::new(0),
            _held: self.held,
        }))
    }
}

/// Sender, receiver, tag.
type Channel = (usize, usize, i32);

/// Messages and receives that have not met. As with MPI, the oldest of each meet; what is short has left when it is
/// sent, what is long when it is received.
#[derive(Debug, Default)]
struct PostOffice {
    sent: BTreeMap<Channel, VecDeque<(u64, Vec<u8>)>>,
    posted: BTreeMap<Channel, VecDeque<(u64, Place)>>,
    /// Length of complete messages that nobody has tested yet.
    complete: BTreeMap<u64, usize>,
    /// Requests that are neither complete nor cancelled, to catch those that are used twice.
    live: BTreeSet<u64>,
    last: u64,
}

#[derive(Debug)]
struct Place {
    data: *mut u8,
    bytes: usize,
}

// SAFETY: whoever posts a receive leaves the place to it until it is complete or cancelled.
unsafe impl Send for Place {}

const SHORT_BYTES: usize = 1000;

/// What a failed test leaves of a message.
const GONE: Message = Message(0);

impl PostOffice {
    fn number(&mut self) -> u64 {
        self.last += 1;
        self.live.insert(self.last);
        self.last
    }

    fn end(&mut self, message: Message) {
        self.live.remove(&message.0);
        self.complete.remove(&message.0);
        self.posted.values_mut().for_each(|queue| queue.retain(|(number, _)| *number != message.0));
    }

    fn deliver(&mut self, channel: Channel) {
        let (Some(sent), Some(posted)) = (self.sent.get_mut(&channel), self.posted.get_mut(&channel)) else { return };
        while !sent.is_empty() && !posted.is_empty() {
            let ((send, message), (receive, place)) = (sent.pop_front().unwrap(), posted.pop_front().unwrap());
            assert!(message.len() <= place.bytes, "{} bytes do not fit into {}", message.len(), place.bytes);
            // SAFETY: the place holds so many bytes, and is the message's until it is complete.
            unsafe { std::ptr::copy_nonoverlapping(message.as_ptr(), place.data, message.len()) };
            self.complete.insert(receive, message.len());
            if message.len() > SHORT_BYTES {
                self.complete.insert(send, 0);
            }
        }
    }
}

/// One rank's access to the post office.
#[derive(Debug)]
struct Mail {
    rank: usize,
    post: Arc<Mutex<PostOffice>>,
    most_tag: i32,
    any_thread: bool,
    sends_left: AtomicU64,
    faults: Arc<Faults>,
    late_send: Option<u64>,
    sent: AtomicU64,
    _held: Arc<()>,
}

impl Mail {
    unsafe fn put(&self, peer: usize, tag: i32, data: *const u8, bytes: usize) -> Result<Message> {
        assert_ne!(peer, self.rank, "nobody sends to itself");
        assert!((0..=self.most_tag).contains(&tag), "tag {tag} of {}", self.most_tag);
        let left = self.sends_left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        left.map_err(|_| Error::new(Status::Transport, "the runtime fails"))?;
        check(&self.faults.send)?;
        if self.late_send == Some(self.sent.fetch_add(1, Relaxed)) {
            std::thread::sleep(LATE);
        }
        let mut post = self.post.lock().unwrap();
        let number = post.number();
        // SAFETY: the caller vouches for the data.
        let message = unsafe { std::slice::from_raw_parts(data, bytes) }.to_vec();
        if bytes <= SHORT_BYTES {
            post.complete.insert(number, bytes);
        }
        let channel = (self.rank, peer, tag);
        post.sent.entry(channel).or_default().push_back((number, message));
        post.deliver(channel);
        Ok(Message(number))
    }

    unsafe fn expect(&self, peer: usize, tag: i32, data: *mut u8, bytes: usize) -> Result<Message> {
        check(&self.faults.receive)?;
        let mut post = self.post.lock().unwrap();
        let number = post.number();
        let channel = (peer, self.rank, tag);
        post.posted.entry(channel).or_default().push_back((number, Place { data, bytes }));
        post.deliver(channel);
        Ok(Message(number))
    }

    fn look(&self, message: &mut Message) -> Result<Option<usize>> {
        let mut post = self.post.lock().unwrap();
        assert!(post.live.contains(&message.0), "a message is tested until it is complete, and no longer");
        check(&self.faults.test).inspect_err(|_| post.end(std::mem::replace(message, GONE)))?;
        let complete = post.complete.remove(&message.0);
        if complete.is_some() {
            post.live.remove(&message.0);
        }
        Ok(complete)
    }

    fn give_up(&self, message: Message) -> Result<()> {
        check(&self.faults.cancel)?;
        let mut post = self.post.lock().unwrap();
        assert!(message == GONE || post.live.contains(&message.0), "only what is under way is cancelled");
        post.end(message);
        Ok(())
    }

    fn find(&self, tag: i32) -> Result<Option<usize>> {
        let post = self.post.lock().unwrap();
        let waits = |(channel, queue): (&Channel, &VecDeque<_>)| {
            (channel.1 == self.rank && channel.2 == tag && !queue.is_empty()).then_some(channel.0)
        };
        Ok(post.sent.iter().find_map(waits))
    }
}

/// A runtime's own allocations are not the library's.
impl Messages for Mail {
    unsafe fn send(&self, peer: usize, tag: i32, data: *const u8, bytes: usize) -> Result<Message> {
        // SAFETY: the caller's promise.
        uncounted(|| unsafe { self.put(peer, tag, data, bytes) })
    }

    unsafe fn receive(&self, peer: usize, tag: i32, data: *mut u8, bytes: usize) -> Result<Message> {
        // SAFETY: the caller's promise.
        uncounted(|| unsafe { self.expect(peer, tag, data, bytes) })
    }

    fn test(&self, message: &mut Message) -> Result<Option<usize>> {
        uncounted(|| self.look(message))
    }

    fn cancel(&self, message: Message) -> Result<()> {
        uncounted(|| self.give_up(message))
    }

    fn probe(&self, tag: i32) -> Result<Option<usize>> {
        uncounted(|| self.find(tag))
    }

    fn any_thread(&self) -> bool {
        self.any_thread
    }
}
