//! An operation that failed because a rank could not take part in it.

use crate::error::{Error, Status};

/// Which rank it was, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The rank whose arguments are at fault.
    pub rank: usize,
    /// What its own call returns.
    pub status: Status,
}

impl Failure {
    /// As one word, in which a lower rank is less.
    pub fn pack(failure: Option<Failure>) -> u64 {
        failure.map_or(0, |failure| (failure.rank as u64) << 32 | failure.status as u64)
    }

    /// What [`Failure::pack`] packed.
    pub fn unpack(word: u64) -> Option<Failure> {
        let rank = (word >> 32) as usize;
        Failure::posted(rank, word as u32 as i32)
    }

    /// What kernels report: the status above the rank, 0 for none.
    #[cfg(feature = "cuda")]
    pub fn reported(word: u64) -> Option<Failure> {
        Failure::posted(word as u32 as usize, (word >> 32) as i32)
    }

    /// What a rank posted as its fault; 0 is none.
    pub fn posted(rank: usize, fault: i32) -> Option<Failure> {
        (fault != 0).then(|| Failure { rank, status: Status::from_code(fault).unwrap_or(Status::Internal) })
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        let rank = failure.rank;
        Error::new(
            failure.status,
            format!("rank {rank} could not take part in this operation: its own error text says why"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_rank_and_status() {
        let failure = Some(Failure { rank: 70_000, status: Status::InvalidArgument });
        assert_eq!(Failure::unpack(Failure::pack(failure)), failure);
        assert_eq!(Failure::unpack(Failure::pack(None)), None);
        #[cfg(feature = "cuda")]
        {
            assert_eq!(
                Failure::reported((Status::Timeout as u64) << 32 | 5).map(|f| (f.rank, f.status)),
                Some((5, Status::Timeout))
            );
            assert_eq!(Failure::reported(5), None);
        }
    }
}
