//! Waiting for peers: spin briefly, then sleep on the own bell, and notice who will never come.

use super::bell::Bell;
use super::communicator::Inner;
use super::control::Cause;
use crate::error::{Error, Result, Status};
use std::time::{Duration, Instant};

/// The longest sleep between two looks at the peers' health.
const LOOK: Duration = Duration::from_millis(20);

/// Something that waits for peers.
pub trait Pending {
    /// Does what can be done now; `true` when nothing is left to wait for.
    fn progress(&mut self) -> Result<bool>;

    /// Calls `visit` with every rank that is still waited for.
    fn awaited(&self, visit: &mut dyn FnMut(usize));
}

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Wait for ever (a lost peer is still noticed).
    pub const NEVER: Deadline = Deadline(None);

    /// So many milliseconds from now; 0 is never.
    pub fn after_ms(timeout_ms: u64) -> Deadline {
        let instant = || Instant::now().checked_add(Duration::from_millis(timeout_ms));
        Deadline(if timeout_ms == 0 { None } else { instant() })
    }

    fn has_passed(&self, now: Instant) -> bool {
        self.0.is_some_and(|deadline| now >= deadline)
    }
}

impl Inner {
    /// Returns when nothing is pending any more, or with the reason why it never will be.
    pub fn wait(&self, bell: &Bell, deadline: Deadline, pending: &mut impl Pending) -> Result<()> {
        for _ in 0..self.spins {
            if pending.progress()? {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        let mut next_look = Instant::now() + LOOK;
        loop {
            let mut outcome = Ok(false);
            bell.sleep_unless(LOOK, || {
                outcome = pending.progress();
                !matches!(outcome, Ok(false))
            });
            if outcome? || pending.progress()? {
                return Ok(());
            }
            if let Some(error) = self.control.broken() {
                return Err(error);
            }
            let now = Instant::now();
            if now >= next_look {
                next_look = now + LOOK;
                if let Some((rank, cause)) = self.find_lost(pending) {
                    // It may have done what was waited for just before it went.
                    if pending.progress()? {
                        return Ok(());
                    }
                    if self.find_lost(pending).is_some_and(|(still, _)| still == rank) {
                        return Err(self.give_up(cause, rank));
                    }
                }
            }
            if deadline.has_passed(now) {
                let mut awaited = Vec::new();
                pending.awaited(&mut |rank| awaited.push(rank));
                self.give_up(Cause::TimedOut, self.rank);
                return Err(Error::new(
                    Status::Timeout,
                    format!(
                        "rank {} waited in vain for ranks {:?}; the communicator is out of use, \
                         destroy it and what was made on it",
                        self.rank,
                        &awaited[..awaited.len().min(8)]
                    ),
                ));
            }
        }
    }

    fn find_lost(&self, pending: &impl Pending) -> Option<(usize, Cause)> {
        let mut lost = None;
        pending.awaited(&mut |rank| {
            if lost.is_none() {
                lost = self.is_lost(rank).map(|cause| (rank, cause));
            }
        });
        lost
    }

    /// Puts the communicator out of use for everyone, and says why.
    pub fn give_up(&self, cause: Cause, rank: usize) -> Error {
        self.control.break_off(cause, rank);
        for member in self.control.members() {
            member.bell.ring();
        }
        self.control.broken().expect("a cause was just set")
    }
}
