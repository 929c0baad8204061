//! How an operation ended on all ranks, where that is asked for.

use super::failure::Failure;
use super::program::Program;
use crate::error::Result;
use crate::transport::{Operation, Pending, Progress, Tally};

impl Program {
    /// Tells how the operation ended here, and returns how it ended on the lowest rank where it failed.
    pub(super) fn wait_for_everyone(
        &self,
        operation: Operation,
        own: Option<Failure>,
        tally: Option<&mut Tally>,
    ) -> Result<()> {
        let (segment, inner) = (&self.segment, &*self.communicator.0);
        let node = &inner.node;
        let bell = segment.bell(node.member);
        let failure = if let Some(tally) = tally {
            tally.start(Failure::pack(own));
            inner.wait(bell, self.patience, &mut Outcomes { program: self, operation, tally })?;
            segment.slot(node.member).set_complete(operation, 0);
            Failure::unpack(tally.least())
        } else {
            segment.slot(node.member).set_complete(operation, Failure::pack(own));
            let members = 0..node.ranks.len();
            self.ring(members.clone());
            let outcome = |member: usize| segment.slot(member).outcome(operation);
            let everyone = members.clone().map(|member| (node.ranks[member], member));
            let mut others = Everyone::new(everyone, |member| outcome(member).is_some());
            inner.wait(bell, self.patience, &mut others)?;
            members.filter_map(outcome).find_map(Failure::unpack)
        };
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// Waits until something is true of every member of a list, which gives their ranks too.
pub struct Everyone<I, F> {
    left: I,
    current: Option<(usize, usize)>,
    is_true: F,
}

impl<I: Iterator<Item = (usize, usize)>, F: Fn(usize) -> bool> Everyone<I, F> {
    /// Of `members`, each with its rank.
    pub fn new(mut members: I, is_true: F) -> Self {
        let current = members.next();
        Everyone { left: members, current, is_true }
    }
}

impl<I: Iterator<Item = (usize, usize)> + Clone, F: Fn(usize) -> bool> Pending for Everyone<I, F> {
    fn progress(&mut self) -> Result<Progress> {
        while self.current.is_some_and(|(_, member)| (self.is_true)(member)) {
            self.current = self.left.next();
        }
        Ok(if self.current.is_none() { Progress::Finished } else { Progress::Idle })
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        let missing = self.current.into_iter().chain(self.left.clone()).filter(|&(_, member)| !(self.is_true)(member));
        missing.for_each(|(rank, _)| visit(rank));
    }
}

/// How the operation ended on all ranks, some of them on other nodes.
struct Outcomes<'a> {
    program: &'a Program,
    operation: Operation,
    tally: &'a mut Tally,
}

impl Pending for Outcomes<'_> {
    fn progress(&mut self) -> Result<Progress> {
        self.tally.progress()
    }

    fn awaited(&self, visit: &mut dyn FnMut(usize)) {
        // A rank of this node that knows how it ended may have gone.
        let (segment, node) = (&self.program.segment, &self.program.communicator.0.node);
        let has_finished = |member: usize| segment.slot(member).outcome(self.operation).is_some();
        self.tally.awaited(&mut |rank| {
            if !node.member_of(rank).is_some_and(has_finished) {
                visit(rank);
            }
        });
    }

    fn needs_polling(&self) -> bool {
        true
    }
}
