//! A communicator: ranks of one node or several that exchange small messages and hand out shared memory.

use super::board::JobBoard;
use super::boot::{Boot, Messages};
use super::control::{Call, Cause, Control, EXCHANGE_BYTES};
use super::introduction::Introduction;
use super::memory::{self, Mapping};
use super::node::Node;
#[cfg(feature = "cuda")]
use super::nvshmem::{Device, NvshmemBoot, is_initialised};
use super::segments::Segments;
use super::star::Star;
use super::sync::Ordering;
use super::wait::{Patience, Pending, Progress, timed_out};
use super::wire::Wire;
use super::{cross_memory, launch};
use crate::config;
use crate::error::{Error, Result, Status, VERDICT_BYTES, agree, encode_verdict};
use once_cell::sync::OnceCell;
use std::ffi::CStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Ranks that move data among themselves. Clones are the same communicator.
#[derive(Clone, Debug)]
pub struct Communicator(pub(crate) Arc<Inner>);

/// What the clones of a communicator share.
#[derive(Debug)]
pub struct Inner {
    pub rank: usize,
    pub size: usize,
    /// The ranks of this node.
    pub node: Node,
    /// The way to those of other nodes, where there are any.
    pub wire: Option<Wire>,
    pub segments: Segments,
    /// The way to the GPUs, once something needed it.
    #[cfg(feature = "cuda")]
    pub device: OnceCell<Device>,
    /// The process that formed it: a forked child has a copy, but is not a rank.
    process: u32,
    /// The number of exchanges so far. Locked for the whole of a collective call.
    collective: Mutex<u32>,
}

/// A collective call in progress: calls of several threads on one communicator come one after the other.
pub struct Collective<'a> {
    inner: &'a Inner,
    exchanges: MutexGuard<'a, u32>,
    call: Call,
    patience: Patience,
}

impl Communicator {
    /// The world of NVSHMEM, if that is initialised; else the one that the launcher of this process made; a process
    /// without a launcher is a world of one. Formed once.
    pub fn world() -> Result<Communicator> {
        static WORLD: OnceCell<Communicator> = OnceCell::new();
        WORLD
            .get_or_try_init(|| {
                #[cfg(feature = "cuda")]
                if is_initialised() {
                    let told = |error: Error| error.context("the implicit world is that of NVSHMEM");
                    return Communicator::from_boot(Box::new(NvshmemBoot::new().map_err(told)?)).map_err(told);
                }
                let (star, rank, size) = match launch::find_job(config::get, launch::launcher_process())? {
                    None => (Star::Hub(Vec::new()), 0, 1),
                    Some(job) => {
                        let star = Star::meet(&job.name, job.rank, job.size, JobBoard::find().as_ref())?;
                        (star, job.rank, job.size)
                    }
                };
                let inner = Inner::form(star, rank, (0..size).collect())?;
                Ok(Communicator(Arc::new(inner)))
            })
            .cloned()
    }

    /// A communicator of `size` ranks that are threads of this process: give one to each.
    pub fn threads(size: usize) -> Result<Vec<Communicator>> {
        if size == 0 {
            return Err(Error::invalid_argument("a communicator of 0 ranks"));
        }
        let segment = memory::create(c"boxwise-control", Control::bytes(size))?;
        let ranks = Star::in_process(size)?.into_iter().enumerate();
        ranks
            .map(|(rank, star)| {
                let control = Control::new(Mapping::new(&segment, Control::bytes(size))?, size);
                let mut node = Node::new(rank, (0..size).collect(), control, star);
                node.cross_memory = true;
                node.watches = (0..size).map(|_| None).collect();
                Ok(Communicator(Arc::new(Inner::new(node))))
            })
            .collect()
    }

    /// A communicator formed with the calls of another runtime. Collective over the ranks of the table. Where that
    /// offers no messages all ranks must be on this node, and it is not used any more afterwards.
    pub fn from_boot(boot: Box<dyn Boot>) -> Result<Communicator> {
        let (rank, size) = (boot.rank(), boot.size());
        if size == 0 || rank >= size {
            return Err(Error::invalid_argument(format!("rank {rank} of {size} in the boot table")));
        }
        let all = Introduction::exchange(&*boot)?;
        let on_this_node = |other: &usize| all[*other].is_same_node(&all[rank]);
        let ranks: Vec<usize> = (0..size).filter(on_this_node).collect();
        let member = ranks.iter().position(|&other| other == rank).expect("a rank is on its own node");
        let name = all[ranks[0]].token();
        let elsewhere = all.iter().position(|other| !other.is_same_node(&all[0]));
        let most_tag = all.iter().map(|other| other.most_tag).min().unwrap_or(0) as i32;
        if let Some(other) = elsewhere
            && let Some(silent) = all.iter().position(|rank| rank.most_tag == 0)
        {
            return Err(Error::new(
                Status::NotSupported,
                format!(
                    "ranks 0 and {other} are on different nodes, which needs a boot table with isend, irecv, test, \
                     cancel and probe on every rank; rank {silent} has none"
                ),
            ));
        }
        let formed = Star::meet(&name, member, ranks.len(), None)
            .and_then(|star| Inner::form(star, member, ranks.clone()))
            .map_err(|error| match elsewhere {
                None => error,
                Some(_) => error.context(format_args!("among ranks {ranks:?} of one node, there numbered from 0")),
            });
        // All have a communicator, or nobody: else some would wait in calls that others never make.
        let mut verdicts = vec![0; size * VERDICT_BYTES];
        boot.allgather(&encode_verdict(&formed.as_ref().map(drop).map_err(Error::clone)), &mut verdicts)?;
        // Nobody gives its table back while another still uses its own.
        boot.barrier()?;
        agree(&verdicts)?;
        let mut inner = formed?;
        (inner.rank, inner.size) = (rank, size);
        if elsewhere.is_some() {
            let messages = boot.into_messages().expect("a boot table with a largest tag has messages");
            inner.wire = Some(Wire::new(messages, rank, size, most_tag));
        }
        log::info!("rank {rank} of a communicator of {size}, {} of them on this node", inner.node.ranks.len());
        Ok(Communicator(Arc::new(inner)))
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.0.rank
    }

    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// The messages to ranks of other nodes; only where there are such ranks.
    pub(super) fn messages(&self) -> &dyn Messages {
        self.0.wire.as_ref().expect("there are ranks on other nodes").messages()
    }

    /// Returns after every rank has called it. Collective.
    pub fn barrier(&self) -> Result<()> {
        self.0.collective(Call::Barrier, None).exchange(&[]).map(drop)
    }
}

impl Inner {
    /// A communicator of the ranks of one node.
    fn new(node: Node) -> Inner {
        Inner {
            rank: node.ranks[node.member],
            size: node.ranks.len(),
            node,
            wire: None,
            segments: Segments::default(),
            #[cfg(feature = "cuda")]
            device: OnceCell::new(),
            process: std::process::id(),
            collective: Mutex::new(0),
        }
    }

    /// Shares the control segment and gets to know the other processes of the node, `ranks` of the communicator, of
    /// which this one is at `member`.
    fn form(star: Star, member: usize, ranks: Vec<usize>) -> Result<Inner> {
        let (patience, started) = (config::boot_timeout()?, Instant::now());
        let bytes = Control::bytes(ranks.len());
        let segment = match &star {
            Star::Hub(_) => {
                let created = memory::create(c"boxwise-control", bytes);
                star.give(&created)?;
                created?
            }
            Star::Spoke(_) => star.take(|| match started.elapsed() < patience {
                true => Ok(()),
                false => Err(timed_out(ranks[member], &ranks[..1])),
            })??,
        };
        let control = Control::new(Mapping::new(&segment, bytes)?, ranks.len());
        control.member(member).pid.store(std::process::id(), Ordering::Relaxed);
        control.member(member).probe_address.store(cross_memory::probe_address(), Ordering::Relaxed);
        let mut inner = Inner::new(Node::new(member, ranks, control, star));
        // Until processes are watched, a connection that ends tells the first member and the others of a lost rank.
        inner.collective(Call::Form, Some(patience)).exchange(&[])?;
        inner.node.watch_others()?;
        let reads_others = inner.node.probe_next();
        // Whoever takes part still lived when the others opened their watches, or is seen to have gone by the first.
        let votes = inner.collective(Call::Form, Some(patience)).exchange(&[reads_others as u8])?;
        inner.node.cross_memory = votes.iter().all(|vote| *vote != 0);
        let how = if inner.node.cross_memory { "works" } else { "is not used" };
        log::info!("rank {} is with {} ranks on its node; cross-memory attach {how}", inner.rank, inner.size);
        Ok(inner)
    }

    /// Begins a collective call.
    pub fn collective(&self, call: Call, patience: Patience) -> Collective<'_> {
        let exchanges = self.collective.lock().unwrap_or_else(PoisonError::into_inner);
        Collective { inner: self, exchanges, call, patience }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let is_rank = self.process == std::process::id();
        // Whoever could not yet be told that it broke, is told now.
        if !is_rank || self.broken().is_some() {
            // Never given back to the runtime: a forked child has no say in it, and messages of a broken communicator
            // may still be on their way, which the runtime could deliver to the next one in its place.
            std::mem::forget(self.wire.take());
        }
        if !is_rank {
            return;
        }
        self.node.control.member(self.node.member).left.store(1, Ordering::Release);
        self.node.control.members().for_each(|member| member.bell.ring());
    }
}

impl Collective<'_> {
    /// Every rank's bytes, one after the other: at most [`EXCHANGE_BYTES`] each, and equally many on all ranks.
    pub fn exchange(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        assert!(mine.len() <= EXCHANGE_BYTES, "{} bytes in one exchange", mine.len());
        if let Some(error) = self.inner.broken() {
            return Err(error);
        }
        *self.exchanges = self.exchanges.wrapping_add(1);
        match &self.inner.wire {
            None => self.exchange_on_node(mine),
            Some(wire) => wire.exchange(self.inner, *self.exchanges, self.call, mine, self.patience),
        }
    }

    /// Tags for the messages of a new plan, where there are messages.
    pub fn agree_on_tags(&mut self) -> Result<Option<i32>> {
        let Some(wire) = &self.inner.wire else { return Ok(None) };
        wire.agree_on_tags(|mask| self.exchange(&mask.to_ne_bytes())).map(Some)
    }

    /// The same where all ranks are on this node.
    fn exchange_on_node(&mut self, mine: &[u8]) -> Result<Vec<u8>> {
        let Node { member, ranks, control, .. } = &self.inner.node;
        let exchange = *self.exchanges;
        let count = ranks.len();
        control.member(*member).contribute(exchange, self.call, mine);
        (1..count).for_each(|step| control.member((member + step) % count).bell.ring());
        let mut arrivals = Arrivals { node: &self.inner.node, exchange, first: 0 };
        self.inner.wait(&control.member(*member).bell, self.patience, &mut arrivals)?;
        let first = control.member(0).call(exchange);
        if let Some(other) = control.members().position(|member| member.call(exchange) != first) {
            return Err(different_calls(ranks[0], ranks[other]));
        }
        let mut all = vec![0; mine.len() * count];
        if !mine.is_empty() {
            let members = control.members().zip(all.chunks_mut(mine.len()));
            members.for_each(|(member, bytes)| member.contribution(exchange, bytes));
        }
        Ok(all)
    }

    /// Memory that all ranks of a node map: their first creates it. The ranks must exchange afterwards whether all
    /// have it.
    pub fn share(&mut self, name: &CStr, bytes: Result<usize>) -> Result<Mapping> {
        let inner = self.inner;
        let (node, first) = (&inner.node, inner.node.ranks[0]);
        let segment = match &node.star {
            Star::Hub(_) => {
                let created = bytes.clone().and_then(|bytes| memory::create(name, bytes));
                // Whoever gets nothing at all would wait for it.
                node.star.give(&created).inspect_err(|_| drop(inner.give_up(Cause::Failed, inner.rank)))?;
                created?
            }
            Star::Spoke(_) => {
                let started = Instant::now();
                let give_up = || match (inner.broken(), node.is_lost(0)) {
                    (Some(error), _) => Err(error),
                    (None, Some(cause)) => Err(inner.give_up(cause, first)),
                    (None, None) if self.patience.is_some_and(|patience| started.elapsed() >= patience) => {
                        inner.give_up(Cause::TimedOut(first), inner.rank);
                        Err(timed_out(inner.rank, &[first]))
                    }
                    (None, None) => Ok(()),
                };
                let taken = node.star.take(give_up).map_err(|error| match error.status {
                    Status::PeerLost => inner.give_up(Cause::Died, first),
                    Status::Timeout => error,
                    // Whatever the first gives now would be taken for the next.
                    _ => {
                        inner.give_up(Cause::Failed, inner.rank);
                        error
                    }
                });
                taken??
            }
        };
        Mapping::new(&segment, bytes?)
    }
}

impl Drop for Collective<'_> {
    fn drop(&mut self) {
        // A bug of ours must not leave the others waiting.
        if std::thread::panicking() {
            self.inner.give_up(Cause::Failed, self.inner.rank);
        }
    }
}

/// What a rank is told whose collective call met another one.
pub(super) fn different_calls(one: usize, other: usize) -> Error {
    Error::invalid_state(format!(
        "ranks {one} and {other} are in different collective calls on this communicator; all ranks must make the same \
         calls in the same order"
    ))
}

/// The contributions to one exchange that are still missing.
struct Arrivals<'a> {
    node: &'a Node,
    exchange: u32,
    /// All members below this one have arrived.
    first: usize,
}

impl Pending for Arrivals<'_> {
    fn progress(&mut self) -> Result<Progress> {
        let count = self.node.ranks.len();
        while self.first < count && self.node.control.member(self.first).has_arrived(self.exchange) {
            self.first += 1;
        }
        Ok(if self.first == count { Progress::Finished } else { Progress::Idle })
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        let members = self.first..self.node.ranks.len();
        let missing = members.filter(|&member| !self.node.control.member(member).has_arrived(self.exchange));
        missing.for_each(|member| visit(self.node.ranks[member]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    /// Two ranks, each on a thread.
    fn pair<T: Send>(
        first: impl FnOnce(&Communicator) -> T + Send,
        second: impl FnOnce(&Communicator) -> T + Send,
    ) -> [T; 2] {
        let [a, b] = <[_; 2]>::try_from(Communicator::threads(2).unwrap()).unwrap();
        thread::scope(|scope| {
            let second = scope.spawn(move || second(&b));
            let first = first(&a);
            [first, second.join().unwrap()]
        })
    }

    #[test]
    fn different_calls_that_meet_are_told_and_can_go_on() {
        let after = |communicator: &Communicator, told: Error| {
            assert_eq!(told.status, Status::InvalidState, "{told}");
            communicator.barrier()
        };
        let results = pair(|c| after(c, c.barrier().unwrap_err()), |c| after(c, c.malloc(Ok(8)).unwrap_err()));
        assert_eq!(results, [Ok(()), Ok(())]);
    }

    #[test]
    fn a_panic_inside_a_collective_call_leaves_nobody_waiting() {
        let panicking = |c: &Communicator| {
            let call = || {
                let _collective = c.0.collective(Call::Barrier, None);
                panic!("on purpose");
            };
            assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
            c.barrier()
        };
        let told = pair(|c| c.barrier(), panicking).map(|result| result.unwrap_err());
        assert!(
            told.iter().all(|error| error.status == Status::PeerLost && error.detail.contains("rank 1")),
            "{told:?}"
        );
    }

    #[test]
    fn a_rank_that_leaves_is_missed_only_by_those_who_wait_for_it() {
        assert_eq!(pair(Communicator::barrier, Communicator::barrier), [Ok(()), Ok(())]);
        let mut ranks = Communicator::threads(2).unwrap();
        drop(ranks.pop());
        let error = ranks[0].barrier().unwrap_err();
        assert_eq!(error.status, Status::PeerLost);
        assert!(error.detail.contains("rank 1 has destroyed its communicator"), "{error}");
    }
}
