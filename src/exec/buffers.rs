//! The caller's buffers for one operation, and what must be true of them.

use crate::error::{Error, Result};
use crate::geometry::Placement;
use crate::plan::Schedule;
use std::ops::Range;

/// The caller's buffers for one operation.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    /// The first element of the output box.
    pub output: *mut u8,
    /// The first element of the input box.
    pub input: *const u8,
    /// The workspace.
    pub workspace: *mut u8,
}

// SAFETY: the caller of exec leaves the buffers to the operation until it is complete.
unsafe impl Send for Buffers {}

/// What the buffers of one rank must be like.
#[derive(Debug)]
pub(super) struct Expected {
    rank: usize,
    pub input: Placement,
    pub output: Placement,
    pub workspace_bytes: usize,
    /// The input is copied to the workspace first, so that the output may overlap it.
    is_staged: bool,
}

impl Expected {
    pub fn new(schedule: &Schedule) -> Expected {
        Expected {
            rank: schedule.rank,
            input: schedule.request.input,
            output: schedule.request.output,
            workspace_bytes: schedule.workspace_bytes,
            is_staged: schedule.staging.is_some(),
        }
    }

    /// Whether nothing is missing, and nothing overlaps that must not.
    pub fn check(&self, buffers: &Buffers) -> Result<()> {
        let wrong = |what: String| Err(self.wrong(what));
        if buffers.input.is_null() && self.input.bytes() > 0 {
            return wrong(format!("data_in is NULL, but input box {} is not empty", self.input.index_box()));
        }
        if buffers.output.is_null() && self.output.bytes() > 0 {
            return wrong(format!("data_out is NULL, but output box {} is not empty", self.output.index_box()));
        }
        if self.workspace_bytes > 0 {
            self.check_workspace(buffers).or_else(wrong)?;
        }
        if !self.is_staged && self.input.may_overlap(buffers.input.addr(), &self.output, buffers.output.addr()) {
            return wrong("data_out overlaps data_in; set BOXWISE_OPTION_IN_PLACE before make to allow that".into());
        }
        Ok(())
    }

    fn check_workspace(&self, buffers: &Buffers) -> std::result::Result<(), String> {
        let needed = self.workspace_bytes;
        if buffers.workspace.is_null() {
            return Err(format!("workspace is NULL, but {needed} bytes are needed (boxwise_get_size)"));
        }
        let start = buffers.workspace.addr();
        let fields = [("data_in", self.input_bytes(buffers)), ("data_out", self.output_bytes(buffers))];
        for (name, bytes) in fields {
            if bytes.start < bytes.end && bytes.start < start.saturating_add(needed) && start < bytes.end {
                return Err(format!("the workspace of {needed} bytes overlaps {name}"));
            }
        }
        Ok(())
    }

    /// A fault of this rank's arguments.
    pub fn wrong(&self, what: String) -> Error {
        Error::invalid_argument(format!("rank {}: {what}", self.rank))
    }

    /// The addresses that the input spans; empty when its box is.
    pub fn input_bytes(&self, buffers: &Buffers) -> Range<usize> {
        span(&self.input, buffers.input.addr())
    }

    /// The addresses that the output spans; empty when its box is.
    pub fn output_bytes(&self, buffers: &Buffers) -> Range<usize> {
        span(&self.output, buffers.output.addr())
    }
}

fn span(placement: &Placement, address: usize) -> Range<usize> {
    let range = placement.byte_range();
    address.wrapping_add_signed(range.start)..address.wrapping_add_signed(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::IndexBox;
    use std::ptr::without_provenance_mut;

    /// 16 bytes in and out, and a workspace.
    fn expected(workspace_bytes: usize, is_staged: bool) -> Expected {
        let placement = Placement::output(IndexBox::new(&[0], &[4]).unwrap(), None, 4).unwrap();
        Expected { rank: 3, input: placement, output: placement, workspace_bytes, is_staged }
    }

    fn buffers(input: usize, output: usize, workspace: usize) -> Buffers {
        let [input, output, workspace] = [input, output, workspace].map(without_provenance_mut::<u8>);
        Buffers { output, input, workspace }
    }

    #[test]
    fn only_a_staged_input_may_be_overlapped() {
        for (workspace_bytes, is_staged) in [(0, false), (100, false), (100, true)] {
            let checked = expected(workspace_bytes, is_staged).check(&buffers(1000, 1008, 2000));
            assert_eq!(checked.is_ok(), is_staged, "{checked:?}");
            assert!(expected(workspace_bytes, is_staged).check(&buffers(1000, 1016, 2000)).is_ok());
        }
    }

    #[test]
    fn a_workspace_is_apart_and_looked_at_only_when_needed() {
        for (workspace, right) in [(0, false), (1, true), (900, true), (901, false), (1015, false), (1016, true)] {
            let checked = expected(100, false).check(&buffers(1000, 3000, workspace));
            assert_eq!(checked.is_ok(), right, "{workspace}: {checked:?}");
        }
        assert!(expected(0, false).check(&buffers(1000, 3000, 1000)).is_ok());
        let told = expected(100, false).check(&buffers(3000, 1000, 1001)).unwrap_err().detail;
        assert_eq!(told, "rank 3: the workspace of 100 bytes overlaps data_out");
    }
}
