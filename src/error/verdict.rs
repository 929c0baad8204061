//! A fault as the ranks tell it to one another, and how all come to the same conclusion from everybody's.

use super::{Error, Result, Status};

/// Bytes of one rank's verdict.
pub const VERDICT_BYTES: usize = 512;

/// This rank's verdict in the form that the ranks exchange.
pub fn encode_verdict(verdict: &Result<()>) -> [u8; VERDICT_BYTES] {
    let mut bytes = [0; VERDICT_BYTES];
    if let Err(fault) = verdict {
        write_fault(fault, &mut bytes);
    }
    bytes
}

/// The common conclusion from the verdicts of all ranks, in the order of the ranks: the fault of the lowest
/// rank that has one, its detail prefixed with that rank. Every rank gets the same text, also the faulty one.
pub fn agree(verdicts: &[u8]) -> Result<()> {
    for (rank, verdict) in verdicts.chunks(VERDICT_BYTES).enumerate() {
        if let Some(fault) = read_fault(verdict) {
            return Err(fault.context(format_args!("rank {rank}")));
        }
    }
    Ok(())
}

/// Bytes before the text: status and length of the text, 4 bytes each. Status 0 means no fault.
const HEAD_BYTES: usize = 8;
const CUT_MARK: &str = "...";

/// Writes status and detail into `space`; a detail that does not fit is cut between characters.
pub fn write_fault(fault: &Error, space: &mut [u8]) {
    let status = match fault.status {
        Status::Success => Status::Internal, // a fault must not read as none
        status => status,
    };
    let room = space.len() - HEAD_BYTES;
    let mut text = fault.detail.clone();
    if text.len() > room {
        let mut end = room - CUT_MARK.len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(CUT_MARK);
    }
    space[..4].copy_from_slice(&(status as i32).to_ne_bytes());
    space[4..HEAD_BYTES].copy_from_slice(&(text.len() as u32).to_ne_bytes());
    space[HEAD_BYTES..HEAD_BYTES + text.len()].copy_from_slice(text.as_bytes());
}

/// What [`write_fault`] wrote, `None` if that is no fault. Bytes that nobody wrote give an internal error.
pub fn read_fault(space: &[u8]) -> Option<Error> {
    let word = |at: usize| space.get(at..at + 4).map(|bytes| bytes.try_into().expect("four bytes"));
    let garbled = || Some(Error::new(Status::Internal, "a rank sent a fault that cannot be read"));
    let (Some(code), Some(length)) = (word(0).map(i32::from_ne_bytes), word(4).map(u32::from_ne_bytes)) else {
        return garbled();
    };
    match (Status::from_code(code), space[HEAD_BYTES..].get(..length as usize)) {
        (Some(Status::Success), _) => None,
        (Some(status), Some(text)) => Some(Error::new(status, String::from_utf8_lossy(text))),
        _ => garbled(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(verdicts: &[Result<()>]) -> Vec<u8> {
        verdicts.iter().flat_map(encode_verdict).collect()
    }

    #[test]
    fn no_fault_is_success() {
        assert_eq!(agree(&gather(&[Ok(()), Ok(()), Ok(())])), Ok(()));
        assert_eq!(agree(&[]), Ok(()));
    }

    #[test]
    fn the_lowest_faulty_rank_is_told() {
        let fault = |status, detail: &str| Err(Error::new(status, detail));
        let all = gather(&[Ok(()), fault(Status::Inconsistent, "overlap"), fault(Status::OutOfMemory, "heap")]);
        assert_eq!(agree(&all), Err(Error::new(Status::Inconsistent, "rank 1: overlap")));
    }

    #[test]
    fn every_status_travels() {
        for status in Status::ALL {
            let told = agree(&gather(&[Err(Error::new(status, "why"))])).unwrap_err();
            let expected = if status == Status::Success { Status::Internal } else { status };
            assert_eq!(told, Error::new(expected, "rank 0: why"));
        }
    }

    #[test]
    fn long_details_are_cut_between_characters() {
        for padding in 0..4 {
            let detail = "x".repeat(padding) + &"é€".repeat(200);
            let told = agree(&gather(&[Err(Error::invalid_argument(&detail))])).unwrap_err().detail;
            let kept = told.strip_prefix("rank 0: ").unwrap().strip_suffix(CUT_MARK).unwrap();
            assert!(detail.starts_with(kept) && kept.len() >= 480, "kept {} bytes", kept.len());
        }
        let fits = "y".repeat(VERDICT_BYTES - HEAD_BYTES);
        let told = agree(&gather(&[Err(Error::invalid_argument(&fits))])).unwrap_err().detail;
        assert_eq!(told, format!("rank 0: {fits}"));
    }

    #[test]
    fn garbage_is_a_fault_and_no_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let mut bytes = [0; VERDICT_BYTES];
            random.fill(&mut bytes);
            bytes[0] |= 1;
            assert!(agree(&bytes).is_err());
            let _ = agree(&bytes[..random.usize(0..VERDICT_BYTES)]);
        }
        assert_eq!(agree(&[1, 2, 3]).unwrap_err().status, Status::Internal);
    }
}
