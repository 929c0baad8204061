//! Waiting for peers: spin briefly, then sleep on the own bell, and notice who will never come.

use super::bell::Bell;
use super::communicator::Inner;
use super::control::Cause;
use super::wire::Wire;
use crate::error::{Error, Result, Status};
use std::time::{Duration, Instant};

/// The longest sleep between two looks at the peers' health.
pub const LOOK: Duration = Duration::from_millis(20);

/// What a look at the peers came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is left to wait for.
    Finished,
    /// Something was done, more is to come.
    Moved,
    /// Nothing could be done.
    Idle,
}

/// Something that waits for peers.
pub trait Pending {
    /// Does what can be done now.
    fn progress(&mut self) -> Result<Progress>;

    /// Calls `visit` with every rank that is still waited for.
    fn awaited(&self, visit: &mut dyn FnMut(usize));

    /// Whether it waits for messages: they move only while they are asked for, and ring no bell.
    fn needs_polling(&self) -> bool {
        false
    }
}

/// The longest wait for others without anything to do meanwhile; `None` waits for ever (a lost peer is still noticed).
pub type Patience = Option<Duration>;

/// The patience that a number of milliseconds means: 0 waits for ever.
pub fn patience(timeout_ms: u64) -> Patience {
    (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms))
}

impl Inner {
    /// Returns when nothing is pending any more, or with the reason why it never will be.
    pub fn wait(&self, bell: &Bell, patience: Patience, pending: &mut impl Pending) -> Result<()> {
        let mut last_moved = Instant::now();
        let mut last_look = last_moved;
        loop {
            let mut outcome = self.spin(pending);
            if outcome == Ok(Progress::Idle) {
                let nap = if pending.needs_polling() { polling_nap(last_moved.elapsed()) } else { LOOK };
                if nap.is_zero() {
                    std::thread::yield_now();
                } else {
                    bell.sleep_unless(nap, || {
                        outcome = pending.progress();
                        outcome != Ok(Progress::Idle)
                    });
                }
            }
            let now = Instant::now();
            match outcome? {
                Progress::Finished => return Ok(()),
                Progress::Moved => last_moved = now,
                Progress::Idle => {}
            }
            if self.node.control.broken().is_some() {
                return Err(self.broken().expect("that it is broken does not change"));
            }
            if now.duration_since(last_look) >= LOOK {
                last_look = now;
                self.hear_notices()?;
                if let Some((rank, cause)) = self.find_lost(pending) {
                    // It may have done what was waited for just before it went.
                    if pending.progress()? == Progress::Finished {
                        return Ok(());
                    }
                    if self.find_lost(pending).is_some_and(|(still, _)| still == rank) {
                        return Err(self.give_up(cause, rank));
                    }
                }
            }
            if patience.is_some_and(|patience| now.duration_since(last_moved) >= patience) {
                return Err(self.time_out(pending));
            }
        }
    }

    /// Looks again and again for a while: a peer that is at work is not long in coming.
    fn spin(&self, pending: &mut impl Pending) -> Result<Progress> {
        for _ in 0..self.node.spins {
            match pending.progress()? {
                Progress::Idle => std::hint::spin_loop(),
                progress => return Ok(progress),
            }
        }
        Ok(Progress::Idle)
    }

    fn time_out(&self, pending: &impl Pending) -> Error {
        let mut awaited = Vec::new();
        pending.awaited(&mut |rank| awaited.push(rank));
        self.give_up(Cause::TimedOut(awaited.first().copied().unwrap_or(self.rank)), self.rank);
        timed_out(self.rank, &awaited)
    }

    /// A rank of this node that is waited for and lost. Those of other nodes are watched there.
    fn find_lost(&self, pending: &impl Pending) -> Option<(usize, Cause)> {
        let mut lost = None;
        pending.awaited(&mut |rank| {
            if lost.is_none() {
                let cause = self.node.member_of(rank).and_then(|member| self.node.is_lost(member));
                lost = cause.map(|cause| (rank, cause));
            }
        });
        lost
    }

    /// Puts the communicator out of use for everyone, and says why.
    pub fn give_up(&self, cause: Cause, rank: usize) -> Error {
        self.node.control.break_off(cause, rank);
        self.node.control.members().for_each(|member| member.bell.ring());
        self.broken().expect("a cause was just set")
    }

    /// Why the communicator is out of use, if it is. Other nodes are told of it by each rank that sees it.
    pub fn broken(&self) -> Option<Error> {
        let broken = self.node.control.broken()?;
        if let Some(wire) = &self.wire {
            wire.spread(self.node.control.cause(), std::iter::empty());
        }
        Some(broken)
    }

    /// Takes over what ranks of other nodes say about the end of the communicator.
    fn hear_notices(&self) -> Result<()> {
        match self.wire.as_ref().map(Wire::hear) {
            Some(Some((cause, rank))) => Err(self.give_up(cause, rank)),
            _ => Ok(()),
        }
    }
}

/// How long to sleep between two looks for messages after so long without one: not at all at first, for a message
/// that is under way; then ever longer, for the sake of whoever shares the core.
fn polling_nap(idle: Duration) -> Duration {
    const EAGER: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_micros(200);
    if idle < EAGER { Duration::ZERO } else { (idle / 16).min(LONGEST) }
}

/// The error of a rank that has waited long enough for those.
pub fn timed_out(rank: usize, awaited: &[usize]) -> Error {
    Error::new(
        Status::Timeout,
        format!(
            "rank {rank} waited in vain for ranks {:?}; the communicator is out of use, destroy it and what was made \
             on it",
            &awaited[..awaited.len().min(8)]
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::communicator::Communicator;
    use super::*;

    /// Moves every 10 ms, so many times, and then is finished or stays idle.
    struct Mover {
        moves_left: u32,
        next: Instant,
        finishes: bool,
    }

    impl Pending for Mover {
        fn progress(&mut self) -> Result<Progress> {
            if self.moves_left == 0 {
                return Ok(if self.finishes { Progress::Finished } else { Progress::Idle });
            }
            if Instant::now() < self.next {
                return Ok(Progress::Idle);
            }
            self.moves_left -= 1;
            self.next += Duration::from_millis(10);
            Ok(Progress::Moved)
        }

        fn awaited(&self, visit: &mut dyn FnMut(usize)) {
            visit(0);
        }
    }

    fn wait_for(finishes: bool) -> Result<()> {
        let world = Communicator::threads(1).unwrap().remove(0).0;
        let mut mover = Mover { moves_left: 60, next: Instant::now(), finishes };
        world.wait(&world.node.control.member(0).bell, Some(Duration::from_millis(300)), &mut mover)
    }

    #[test]
    fn patience_is_for_idle_time_only() {
        assert_eq!(wait_for(true), Ok(()));
        assert_eq!(wait_for(false).unwrap_err().status, Status::Timeout);
    }
}
