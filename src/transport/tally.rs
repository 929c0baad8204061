//! How an operation ended on all ranks of a communicator that spans nodes: the lowest rank that failed, if any.
//!
//! By dissemination (Hensgen, Finkel, Manber, Int. J. Parallel Program. 17, 1988): after the round with steps of `s`
//! ranks, each knows of the `2 * s` ranks before it. Taking the least twice does no harm.

use super::boot::Message;
use super::communicator::Communicator;
use super::wait::{Pending, Progress};
use crate::error::Result;

/// One rank's part; made once, used by one operation after the other.
#[derive(Debug)]
pub struct Tally {
    communicator: Communicator,
    tag: i32,
    /// What is sent and what is received in each round.
    words: Vec<[u64; 2]>,
    round: usize,
    begun: bool,
    /// The messages of the round under way.
    sending: Option<Message>,
    receiving: Option<Message>,
    /// The least that is known, 0 for nothing.
    least: u64,
}

impl Tally {
    /// For messages with this tag.
    pub fn new(communicator: &Communicator, tag: i32) -> Tally {
        let rounds = communicator.size().next_power_of_two().ilog2() as usize;
        let words = vec![[0; 2]; rounds];
        Tally {
            communicator: communicator.clone(),
            tag,
            words,
            round: 0,
            begun: false,
            sending: None,
            receiving: None,
            least: 0,
        }
    }

    /// Begins with what this rank has to tell: 0, or a word that is less for a lower rank.
    pub fn start(&mut self, word: u64) {
        (self.round, self.least) = (0, word);
    }

    /// Once finished: the least word of any rank that is not 0, or 0.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// Who is told in this round, and who tells.
    fn neighbours(&self) -> (usize, usize) {
        let (rank, size, step) = (self.communicator.rank(), self.communicator.size(), 1 << self.round);
        ((rank + step) % size, (rank + size - step) % size)
    }

    fn begin_round(&mut self) -> Result<()> {
        let (to, from) = self.neighbours();
        let words = self.words.as_mut_ptr().wrapping_add(self.round).cast::<u64>();
        let word_bytes = size_of::<u64>();
        // SAFETY: the words of a round are its messages' until they are complete, see `drop`.
        unsafe {
            words.write(self.least);
            let messages = self.communicator.messages();
            self.receiving = Some(messages.receive(from, self.tag, words.wrapping_add(1).cast(), word_bytes)?);
            self.sending = Some(messages.send(to, self.tag, words.cast_const().cast(), word_bytes)?);
        }
        Ok(())
    }
}

impl Pending for Tally {
    fn progress(&mut self) -> Result<Progress> {
        let mut progress = Progress::Idle;
        while self.round < self.words.len() {
            if !self.begun {
                self.begin_round()?;
                self.begun = true;
            }
            for message in [&mut self.sending, &mut self.receiving] {
                self.communicator.messages().take_complete(message)?;
            }
            if self.sending.is_some() || self.receiving.is_some() {
                return Ok(progress);
            }
            let told = self.words[self.round][1];
            self.least = [self.least, told].into_iter().filter(|&word| word != 0).min().unwrap_or(0);
            (self.round, self.begun) = (self.round + 1, false);
            progress = Progress::Moved;
        }
        Ok(Progress::Finished)
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        // First the one that is missed here; but what it tells comes from all.
        let Communicator(inner) = &self.communicator;
        let first = self.neighbours().1;
        visit(first);
        inner.node.ranks.iter().copied().filter(|&rank| rank != first && rank != inner.rank).for_each(visit);
    }

    fn needs_polling(&self) -> bool {
        true
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let messages = self.communicator.messages();
        let cancelled = self.receiving.take().is_none_or(|message| messages.cancel(message).is_ok());
        if !cancelled || self.sending.is_some() {
            // Given up, and the runtime may still use them.
            std::mem::forget(std::mem::take(&mut self.words));
        }
    }
}
