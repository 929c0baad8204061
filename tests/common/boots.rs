//! Boot tables over threads: communicators of any subset of a test's ranks, on one node or on pretended ones between
//! which messages go.

use super::usage::uncounted;
use boxwise::{Boot, Error, Message, Messages, Result, Status};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

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
    /// What fails on this rank.
    pub faults: Arc<Faults>,
    /// Which of its messages arrives only after [`LATE`].
    pub late_message: Option<u64>,
    /// Held by the messages until the library gives them back.
    pub held: Arc<()>,
}

/// What the runtime of a rank fails to do.
#[derive(Debug, Default)]
pub struct Faults {
    pub send: Fault,
    pub receive: Fault,
    /// The request is gone then.
    pub test: Fault,
    pub cancel: Fault,
    /// Whether it panics instead.
    pub panics: AtomicBool,
}

/// A call that works so often, and then fails so often.
#[derive(Debug, Default)]
pub struct Fault {
    works: AtomicU64,
    fails: AtomicU64,
}

impl Fault {
    /// From now on.
    pub fn set(&self, works: u64, fails: u64) {
        self.works.store(works, Relaxed);
        self.fails.store(fails, Relaxed);
    }
}

impl Faults {
    fn check(&self, fault: &Fault) -> Result<()> {
        let take = |count: &AtomicU64| count.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if take(&fault.works) || !take(&fault.fails) {
            return Ok(());
        }
        assert!(!self.panics.load(Relaxed), "the runtime panics, on purpose");
        Err(Error::new(Status::Transport, "the runtime fails"))
    }
}

/// Longer than a rank waits between two looks at the health of others.
const LATE: Duration = Duration::from_millis(100);

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
        faults: Arc::default(),
        late_message: None,
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
            faults: self.faults,
            late_message: self.late_message,
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
    sent: BTreeMap<Channel, VecDeque<Letter>>,
    posted: BTreeMap<Channel, VecDeque<(u64, Place)>>,
    /// Where a message was held back: it is delivered when somebody asks after its time.
    late: BTreeSet<Channel>,
    /// Length of complete messages that nobody has tested yet.
    complete: BTreeMap<u64, usize>,
    /// Requests that are neither complete nor cancelled, to catch those that are used twice.
    live: BTreeSet<u64>,
    last: u64,
}

#[derive(Debug)]
struct Letter {
    number: u64,
    bytes: Vec<u8>,
    not_before: Instant,
}

impl Letter {
    fn is_here(&self) -> bool {
        self.not_before <= Instant::now()
    }
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
        while sent.front().is_some_and(Letter::is_here) && !posted.is_empty() {
            let (Letter { number, bytes, .. }, (receive, place)) =
                (sent.pop_front().unwrap(), posted.pop_front().unwrap());
            assert!(bytes.len() <= place.bytes, "{} bytes do not fit into {}", bytes.len(), place.bytes);
            // SAFETY: the place holds so many bytes, and is the message's until it is complete.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.data, bytes.len()) };
            self.complete.insert(receive, bytes.len());
            if bytes.len() > SHORT_BYTES {
                self.complete.insert(number, 0);
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
    faults: Arc<Faults>,
    late_message: Option<u64>,
    sent: AtomicU64,
    _held: Arc<()>,
}

impl Mail {
    unsafe fn put(&self, peer: usize, tag: i32, data: *const u8, bytes: usize) -> Result<Message> {
        assert_ne!(peer, self.rank, "nobody sends to itself");
        assert!((0..=self.most_tag).contains(&tag), "tag {tag} of {}", self.most_tag);
        self.faults.check(&self.faults.send)?;
        let is_late = self.late_message == Some(self.sent.fetch_add(1, Relaxed));
        let not_before = Instant::now() + if is_late { LATE } else { Duration::ZERO };
        let mut post = self.post.lock().unwrap();
        let number = post.number();
        // SAFETY: the caller vouches for the data.
        let contents = unsafe { std::slice::from_raw_parts(data, bytes) }.to_vec();
        if bytes <= SHORT_BYTES {
            post.complete.insert(number, bytes);
        }
        let channel = (self.rank, peer, tag);
        if is_late {
            post.late.insert(channel);
        }
        post.sent.entry(channel).or_default().push_back(Letter { number, bytes: contents, not_before });
        post.deliver(channel);
        Ok(Message(number))
    }

    unsafe fn expect(&self, peer: usize, tag: i32, data: *mut u8, bytes: usize) -> Result<Message> {
        self.faults.check(&self.faults.receive)?;
        let mut post = self.post.lock().unwrap();
        let number = post.number();
        let channel = (peer, self.rank, tag);
        post.posted.entry(channel).or_default().push_back((number, Place { data, bytes }));
        post.deliver(channel);
        Ok(Message(number))
    }

    fn look(&self, message: &mut Message) -> Result<Option<usize>> {
        let fails = self.faults.check(&self.faults.test);
        let mut post = self.post.lock().unwrap();
        assert!(post.live.contains(&message.0), "a message is tested until it is complete, and no longer");
        fails.inspect_err(|_| post.end(std::mem::replace(message, GONE)))?;
        post.late.clone().into_iter().for_each(|channel| post.deliver(channel));
        let complete = post.complete.remove(&message.0);
        if complete.is_some() {
            post.live.remove(&message.0);
        }
        Ok(complete)
    }

    fn give_up(&self, message: Message) -> Result<()> {
        self.faults.check(&self.faults.cancel)?;
        let mut post = self.post.lock().unwrap();
        assert!(message == GONE || post.live.contains(&message.0), "only what is under way is cancelled");
        post.end(message);
        Ok(())
    }

    fn find(&self, tag: i32) -> Result<Option<usize>> {
        let post = self.post.lock().unwrap();
        let waits = |(channel, queue): (&Channel, &VecDeque<_>)| {
            let is_here = queue.front().is_some_and(Letter::is_here);
            (channel.1 == self.rank && channel.2 == tag && is_here).then_some(channel.0)
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
