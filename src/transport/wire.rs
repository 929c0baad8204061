//! Messages among all ranks of a communicator that spans nodes: exchanges, the news that it is broken, and tags.

use super::boot::{Message, Messages};
use super::communicator::{Communicator, Inner, different_calls};
use super::control::{Call, Cause, EXCHANGE_BYTES};
use super::node::Node;
use super::wait::{Patience, Pending, Progress};
use crate::error::{Error, Result, Status};
use bytemuck::{Pod, Zeroable};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const EXCHANGE_TAG: i32 = 0;
const NOTICE_TAG: i32 = 1;
/// Pair `p` of a made plan is the tags `FIRST_PLAN_TAG + 2 * p` for its data and the next for its outcomes.
const FIRST_PLAN_TAG: i32 = 2;

/// One rank's messages to the others.
#[derive(Debug)]
pub struct Wire {
    messages: Box<dyn Messages>,
    rank: usize,
    size: usize,
    /// The largest tag on all ranks.
    most_tag: i32,
    /// The ranks that must know that the communicator is broken, and whether they have been told.
    notices: Mutex<BTreeMap<usize, bool>>,
    /// What they are told. Like all of a broken communicator's wire it is never freed: such a message may never be
    /// complete.
    notice: Box<AtomicU64>,
    hearing: Mutex<()>,
    tags: Mutex<Tags>,
}

/// The tag pairs of the plans that live on this rank. Ranks destroy plans at different times.
#[derive(Debug, Default)]
struct Tags {
    live: BTreeSet<u32>,
    /// Where to look for the next: the same on all ranks.
    next: u32,
}

thread_local! {
    /// This thread was started by boxwise.
    static IS_OURS: Cell<bool> = const { Cell::new(false) };
}

/// Marks the calling thread as one that boxwise started: only some runtimes let it send messages.
pub fn mark_own_thread() {
    IS_OURS.set(true);
}

impl Wire {
    /// The messages of rank `rank` of `size`, with tags up to `most_tag` on all of them.
    pub fn new(messages: Box<dyn Messages>, rank: usize, size: usize, most_tag: i32) -> Wire {
        let (notices, notice, hearing, tags) = Default::default();
        Wire { messages, rank, size, most_tag, notices, notice, hearing, tags }
    }

    /// The runtime's messages.
    pub fn messages(&self) -> &dyn Messages {
        &*self.messages
    }

    /// Whether this thread may send and receive.
    pub fn is_usable_here(&self) -> bool {
        self.messages.any_thread() || !IS_OURS.get()
    }

    /// Every rank's bytes, by Bruck's algorithm (IEEE Trans. Parallel Distrib. Syst. 8, 1997): in each of log2(size)
    /// rounds a rank passes on all that it has, or all that is still missing.
    pub fn exchange(
        &self,
        inner: &Inner,
        exchange: u32,
        call: Call,
        mine: &[u8],
        patience: Patience,
    ) -> Result<Vec<u8>> {
        let (rank, size, length) = (self.rank, self.size, mine.len());
        let bell = &inner.node.control.member(inner.node.member).bell;
        // Blocks of this rank, the next one, and so on.
        let mut blocks = mine.to_vec();
        // Two ranks that met in different calls. All hear of them: whatever a rank knows reaches everyone.
        let mut odd = None;
        let mut have = 1;
        while have < size {
            let count = have.min(size - have);
            let mut out = bytemuck::bytes_of(&Head::new(call, odd)).to_vec();
            if odd.is_none() {
                out.extend(&blocks[..count * length]);
            }
            let round = self.start_round(inner, exchange, have, count, out);
            let round = round.and_then(|mut round| inner.wait(bell, patience, &mut round).map(|()| round));
            let round = round.inspect_err(|error| {
                if error.status == Status::Transport {
                    inner.give_up(Cause::Failed, rank);
                }
            })?;
            let from = round.receiving.peer;
            let got = round.receiving.into_bytes();
            let (head, rest) = got.split_at_checked(size_of::<Head>()).unwrap_or_default();
            match bytemuck::try_pod_read_unaligned::<Head>(head) {
                Ok(Head { call: theirs, odd: NONE, .. }) if theirs == call as u32 && rest.len() == count * length => {
                    blocks.extend(rest)
                }
                Ok(Head { odd: [one, other], .. }) if [one, other] != NONE => odd = odd.or(Some([one, other])),
                _ => odd = odd.or(Some([rank as u32, from as u32])),
            }
            have += count;
            blocks.resize(have * length, 0);
        }
        inner.node.control.member(inner.node.member).finish(exchange);
        match odd {
            Some([one, other]) => Err(different_calls(one as usize, other as usize)),
            None => {
                blocks.rotate_right(rank * length);
                Ok(blocks)
            }
        }
    }

    /// Sends to the rank `have` before this one, and receives `count` blocks from the rank `have` after it.
    fn start_round<'a>(
        &'a self,
        inner: &'a Inner,
        exchange: u32,
        have: usize,
        count: usize,
        out: Vec<u8>,
    ) -> Result<Round<'a>> {
        let (to, from) = ((self.rank + self.size - have) % self.size, (self.rank + have) % self.size);
        // A rank in another call may send up to so much.
        let most = size_of::<Head>() + count * EXCHANGE_BYTES;
        let receiving = Receiving::start(self, from, EXCHANGE_TAG, most)?;
        Ok(Round { receiving, sending: Sending::start(self, to, EXCHANGE_TAG, out)?, inner, exchange })
    }

    /// Tells that the communicator is broken, each rank once: those who may wait for this one in an exchange or a
    /// tally, and `others`. `word` is the packed cause. Who cannot be told now, is told at the next call.
    pub fn spread(&self, word: u64, others: impl Iterator<Item = usize>) {
        let steps = std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|&step| step < self.size);
        let neighbours =
            steps.flat_map(|step| [(self.rank + step) % self.size, (self.rank + self.size - step) % self.size]);
        let mut notices = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        neighbours.chain(others).for_each(|rank| _ = notices.entry(rank).or_default());
        if !self.is_usable_here() {
            return;
        }
        self.notice.store(word, Ordering::Relaxed);
        for (&rank, told) in notices.iter_mut().filter(|(_, told)| !**told) {
            // SAFETY: the word lives for ever.
            let sent = unsafe { self.messages.send(rank, NOTICE_TAG, self.notice.as_ptr().cast(), size_of::<u64>()) };
            *told = sent.and_then(|mut message| self.messages.test(&mut message)).is_ok();
        }
    }

    /// What another rank tells of the end of the communicator, if one does.
    pub fn hear(&self) -> Option<(Cause, usize)> {
        const MOST: Duration = Duration::from_secs(1);
        if !self.is_usable_here() {
            return None;
        }
        let _one_at_a_time = self.hearing.try_lock().ok()?;
        let from = self.messages.probe(NOTICE_TAG).ok()??;
        let mut receiving = Receiving::start(self, from, NOTICE_TAG, size_of::<u64>()).ok()?;
        // It is there already.
        let started = Instant::now();
        while !receiving.test().ok()? {
            if started.elapsed() > MOST {
                return None;
            }
        }
        Cause::unpack(u64::from_ne_bytes(receiving.into_bytes().try_into().ok()?))
    }

    fn tags(&self) -> MutexGuard<'_, Tags> {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of tag pairs there are.
    fn pairs(&self) -> u32 {
        ((self.most_tag - FIRST_PLAN_TAG + 1) / 2) as u32
    }

    /// A tag pair that no living plan of any rank has: a plan may still live on others. `exchange` gathers a mask.
    pub fn agree_on_tags(&self, mut exchange: impl FnMut(u64) -> Result<Vec<u8>>) -> Result<i32> {
        const AT_ONCE: u32 = u64::BITS;
        let pairs = self.pairs();
        let mut first = self.tags().next;
        for _ in 0..pairs.div_ceil(AT_ONCE) {
            let is_live = |bit: &u32| self.tags().live.contains(&((first + bit) % pairs));
            let own = (0..AT_ONCE).filter(is_live).fold(0, |mask, bit| mask | 1u64 << bit);
            let masks = exchange(own)?;
            let masks = masks.chunks(8).map(|mask| u64::from_ne_bytes(mask.try_into().expect("eight bytes")));
            let free = masks.fold(0, |all, mask| all | mask).trailing_ones();
            if free < AT_ONCE {
                let pair = (first + free) % pairs;
                let mut tags = self.tags();
                tags.live.insert(pair);
                tags.next = (pair + 1) % pairs;
                return Ok(FIRST_PLAN_TAG + 2 * pair as i32);
            }
            first = (first + AT_ONCE) % pairs;
        }
        Err(Error::new(
            Status::OutOfMemory,
            format!("{pairs} reshapes live on this communicator, more than its messages have tags for; destroy some"),
        ))
    }
}

/// A made plan's tags: one for its data, the next for its outcomes. Given back on drop.
#[derive(Debug)]
pub struct PlanTags {
    communicator: Communicator,
    tag: i32,
}

impl PlanTags {
    /// Those that [`Wire::agree_on_tags`] found.
    pub fn new(communicator: &Communicator, tag: i32) -> PlanTags {
        PlanTags { communicator: communicator.clone(), tag }
    }

    /// The tag of its data.
    pub fn data(&self) -> i32 {
        self.tag
    }

    /// The tag of its outcomes.
    pub fn outcomes(&self) -> i32 {
        self.tag + 1
    }
}

impl Drop for PlanTags {
    fn drop(&mut self) {
        if let Some(wire) = &self.communicator.0.wire {
            wire.tags().live.remove(&((self.tag - FIRST_PLAN_TAG) as u32 / 2));
        }
    }
}

/// At the start of a message of an exchange.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Head {
    call: u32,
    odd: [u32; 2],
}

/// No two ranks are in different calls.
const NONE: [u32; 2] = [u32::MAX; 2];

impl Head {
    fn new(call: Call, odd: Option<[u32; 2]>) -> Head {
        Head { call: call as u32, odd: odd.unwrap_or(NONE) }
    }
}

/// One round of an exchange.
struct Round<'a> {
    receiving: Receiving<'a>,
    sending: Sending<'a>,
    inner: &'a Inner,
    exchange: u32,
}

impl Pending for Round<'_> {
    fn progress(&mut self) -> Result<Progress> {
        let (received, sent) = (self.receiving.test()?, self.sending.test()?);
        Ok(if received && sent { Progress::Finished } else { Progress::Idle })
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        // First the one that is missed here; but what it passes on comes from all. Who has finished may have gone.
        let Node { ranks, control, member, .. } = &self.inner.node;
        let peer = self.receiving.peer;
        let has_finished = |member: usize| control.member(member).has_arrived(self.exchange);
        if !self.inner.node.member_of(peer).is_some_and(has_finished) {
            visit(peer);
        }
        let mates = (0..ranks.len()).filter(|mate| mate != member && ranks[*mate] != peer && !has_finished(*mate));
        mates.for_each(|mate| visit(ranks[mate]));
    }

    fn needs_polling(&self) -> bool {
        true
    }
}

/// A message on its way to another rank.
struct Sending<'a> {
    wire: &'a Wire,
    bytes: Vec<u8>,
    message: Option<Message>,
}

impl<'a> Sending<'a> {
    fn start(wire: &'a Wire, peer: usize, tag: i32, bytes: Vec<u8>) -> Result<Sending<'a>> {
        // SAFETY: the bytes live until the message is complete, see `drop`.
        let message = unsafe { wire.messages.send(peer, tag, bytes.as_ptr(), bytes.len()) }?;
        Ok(Sending { wire, bytes, message: Some(message) })
    }

    fn test(&mut self) -> Result<bool> {
        self.wire.messages.take_complete(&mut self.message)?;
        Ok(self.message.is_none())
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if self.message.is_some() {
            // Given up, and the runtime may still read it.
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}

/// A message on its way from another rank.
struct Receiving<'a> {
    wire: &'a Wire,
    peer: usize,
    bytes: Vec<u8>,
    message: Option<Message>,
}

impl<'a> Receiving<'a> {
    fn start(wire: &'a Wire, peer: usize, tag: i32, most: usize) -> Result<Receiving<'a>> {
        let mut bytes = Vec::with_capacity(most);
        // SAFETY: the room lives, unused, until the message is complete or cancelled.
        let message = unsafe { wire.messages.receive(peer, tag, bytes.as_mut_ptr(), most) }?;
        Ok(Receiving { wire, peer, bytes, message: Some(message) })
    }

    fn test(&mut self) -> Result<bool> {
        if let Some(length) = self.wire.messages.take_complete(&mut self.message)? {
            // SAFETY: so many bytes have arrived, in a room of that capacity.
            unsafe { self.bytes.set_len(length.min(self.bytes.capacity())) };
        }
        Ok(self.message.is_none())
    }

    /// What has arrived.
    fn into_bytes(mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        if let Some(message) = self.message.take()
            && self.wire.messages.cancel(message).is_err()
        {
            // The runtime may still write there.
            std::mem::forget(std::mem::take(&mut self.bytes));
        }
    }
}
