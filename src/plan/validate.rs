//! Whether the descriptions of all ranks fit together: alike, every element held once, every wish fulfilled.

use super::descriptor::Descriptor;
use super::options::{OptionName, Options};
use crate::error::{Error, Result, Status};
use crate::geometry::IndexBox;

/// The part of the validation on which all ranks come to the same verdict from the same table: the fault of the
/// lowest rank whose own arguments are faulty; then the lowest rank that differs from rank 0 in something on
/// which all must agree. The detail names the rank.
pub fn check_table(table: &[Descriptor]) -> Result<()> {
    for (rank, descriptor) in table.iter().enumerate() {
        if descriptor.rank != rank {
            let detail = format!(
                "rank {rank}: the description at its place is that of rank {}; the allgather of the communicator \
                 must deliver in the order of the ranks",
                descriptor.rank
            );
            return Err(Error::new(Status::Inconsistent, detail));
        }
    }
    for (rank, descriptor) in table.iter().enumerate() {
        if let Err(fault) = &descriptor.description {
            return Err(fault.clone().context(format_args!("rank {rank}")));
        }
    }
    let Some(first) = table.first() else {
        return Ok(());
    };
    let Some((other, (what, value, expected))) =
        table.iter().find_map(|other| Some((other, difference(first, other)?)))
    else {
        return Ok(());
    };
    // Tells a lone stray rank from a stray rank 0.
    let strays = table.iter().filter(|other| difference(first, other).is_some()).count();
    Err(Error::new(
        Status::Inconsistent,
        format!(
            "rank {}: {what} is {value}, but {expected} on rank 0 ({strays} of {} ranks differ from rank 0); all \
             ranks must pass the same",
            other.rank,
            table.len()
        ),
    ))
}

/// What differs between two sound descriptions that must not: its name, the other's value, the first's value.
fn difference(first: &Descriptor, other: &Descriptor) -> Option<(&'static str, i64, i64)> {
    let facts = |descriptor: &Descriptor| {
        let input = &descriptor.request().input;
        [("ndims", input.index_box().ndims() as i64), ("element_size", input.element_size() as i64)]
    };
    let options = |options: &Options| OptionName::ALL.map(OptionName::c_name).into_iter().zip(options.values().0);
    let expected = facts(first).into_iter().chain(options(&first.options));
    let mut seen = facts(other).into_iter().chain(options(&other.options)).zip(expected);
    seen.find_map(|((name, value), (_, expected))| (value != expected).then_some((name, value, expected)))
}

/// The part of the validation that each rank does for its own boxes against all others, after `check_table`:
/// no other rank holds an element of its input (unless replicas are allowed), and every element of its output is
/// held by some rank (unless uncovered elements are allowed). The detail does not name `rank` itself: the ranks
/// exchange their verdicts, which puts the rank before the detail.
pub fn check_own(table: &[Descriptor], rank: usize) -> Result<()> {
    let options = &table[rank].options;
    if !options.allow_replicas {
        check_disjoint(table, rank)?;
    }
    if !options.allow_uncovered {
        check_covered(table, rank)?;
    }
    Ok(())
}

fn check_disjoint(table: &[Descriptor], rank: usize) -> Result<()> {
    let own = table[rank].request().input.index_box();
    let mut overlaps = table
        .iter()
        .filter(|other| other.rank != rank)
        .filter_map(|other| Some((other, own.intersect(other.request().input.index_box())?)));
    let Some((other, common)) = overlaps.next() else {
        return Ok(());
    };
    let more = match overlaps.count() {
        0 => String::new(),
        more => format!(" (and those of {more} more ranks)"),
    };
    Err(Error::new(
        Status::Inconsistent,
        format!(
            "input box {own} overlaps rank {}'s input box {} in {common}{more}; give every element to one input \
             box, or set {} to 1 if the copies are equal",
            other.rank,
            other.request().input.index_box(),
            OptionName::AllowReplicas.c_name()
        ),
    ))
}

fn check_covered(table: &[Descriptor], rank: usize) -> Result<()> {
    let wanted = table[rank].request().output.index_box();
    if !table[rank].options.allow_replicas {
        // Enough where inputs are disjoint. Where they are not, this may pass, but the overlapping ranks fail.
        let held: u128 = inputs(table).filter_map(|held| wanted.intersect(held)).map(|b| b.volume() as u128).sum();
        if held == wanted.volume() as u128 {
            return Ok(());
        }
    }
    let missing = uncovered(wanted, inputs(table));
    let Some(largest) = missing.iter().rev().max_by_key(|b| b.volume()) else {
        return Ok(());
    };
    let count: i64 = missing.iter().map(IndexBox::volume).sum();
    Err(Error::new(
        Status::Inconsistent,
        format!(
            "output box {wanted} wants {largest}, which no rank's input holds ({count} of {} elements are held by \
             none); make the input boxes cover the output boxes, or set {} to 1 to leave such elements untouched",
            wanted.volume(),
            OptionName::AllowUncovered.c_name()
        ),
    ))
}

fn inputs(table: &[Descriptor]) -> impl Iterator<Item = &IndexBox> {
    table.iter().map(|descriptor| descriptor.request().input.index_box())
}

/// Disjoint boxes of all elements of `wanted` that none of the boxes `held` has.
fn uncovered<'a>(wanted: &IndexBox, held: impl Iterator<Item = &'a IndexBox>) -> Vec<IndexBox> {
    let mut rest = match wanted.is_empty() {
        true => Vec::new(),
        false => vec![*wanted],
    };
    let mut next = Vec::new();
    for hole in held.filter(|held| wanted.intersect(held).is_some()) {
        rest.drain(..).for_each(|part| part.subtract_into(hole, &mut next));
        std::mem::swap(&mut rest, &mut next);
        if rest.is_empty() {
            break;
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Oracle, agreed, line, random_table, table_of, table_sized, with_options};
    use super::*;
    use crate::error::{VERDICT_BYTES, agree, encode_verdict};
    use crate::geometry::Placement;

    /// The verdict of all ranks, as `make` comes to it.
    #[track_caller]
    fn refused(table: &[Descriptor], texts: &[&str]) {
        let fault = agreed(table).unwrap_err();
        assert_eq!(fault.status, Status::Inconsistent, "{fault}");
        for text in texts {
            assert!(fault.detail.contains(text), "{fault} lacks {text:?}");
        }
    }

    fn with_replicas(table: Vec<Descriptor>) -> Vec<Descriptor> {
        with_options(table, Options { allow_replicas: true, ..Options::default() })
    }

    #[test]
    fn the_lowest_faulty_rank_wins() {
        let mut table = table_of(&[(&[0], &[1], &[0], &[1]), (&[1], &[2], &[1], &[2]), (&[2], &[3], &[2], &[3])]);
        assert_eq!(check_table(&table), Ok(()));
        table[0].options.in_place = true; // differs, but faulty arguments are told first
        table[2].description = Err(Error::new(Status::OutOfMemory, "later"));
        table[1].description = Err(Error::invalid_argument("upper[0] = 1 is below lower[0] = 2"));
        let fault = check_table(&table).unwrap_err();
        assert_eq!(fault, Error::invalid_argument("rank 1: upper[0] = 1 is below lower[0] = 2"));
    }

    #[test]
    fn ranks_that_differ_are_told() {
        let sound = table_of(&[(&[0], &[1], &[0], &[1]), (&[1], &[2], &[1], &[2]), (&[2], &[3], &[2], &[3])]);
        let mut table = sound.clone();
        table[2] = Descriptor { rank: 2, ..table_of(&[(&[0, 0], &[1, 1], &[0, 0], &[1, 1])])[0].clone() };
        refused(&table, &["rank 2: ndims is 2, but 1 on rank 0 (1 of 3"]);

        let mut table = sound.clone();
        let thin = |b: &IndexBox| Placement::output(*b, None, 4).unwrap();
        for descriptor in &mut table[1..] {
            let request = descriptor.description.as_mut().unwrap();
            (request.input, request.output) = (thin(request.input.index_box()), thin(request.output.index_box()));
        }
        refused(&table, &["rank 1: element_size is 4, but 8 on rank 0 (2 of 3"]);

        for name in OptionName::ALL {
            let mut table = sound.clone();
            let value = if name == OptionName::EntrySync { 0 } else { 2 };
            let value = if table[1].options.set(name, value).is_ok() { value } else { 1 };
            table[1].options.set(name, value).unwrap();
            refused(&table, &[&format!("rank 1: {} is {value}, but ", name.c_name()), "on rank 0 (1 of 3"]);
        }

        let mut table = sound;
        table.swap(1, 2);
        let fault = check_table(&table).unwrap_err();
        assert_eq!(fault.status, Status::Inconsistent);
        assert!(fault.detail.starts_with("rank 1: the description at its place is that of rank 2"), "{fault}");
    }

    #[test]
    fn overlap_names_both_ranks_and_boxes() {
        let table = table_of(&[
            (&[0, 0], &[0, 4], &[0, 0], &[1, 4]),
            (&[0, 0], &[2, 4], &[1, 0], &[2, 4]),
            (&[1, 2], &[3, 4], &[2, 2], &[3, 4]),
        ]);
        refused(
            &table,
            &[
                "rank 1: input box [0, 2) x [0, 4) overlaps rank 2's input box [1, 3) x [2, 4) in [1, 2) x [2, 4)",
                "BOXWISE_OPTION_ALLOW_REPLICAS",
            ],
        );
        assert_eq!(agreed(&with_replicas(table)), Ok(()));
        let table = table_of(&[(&[0], &[3], &[0], &[3]), (&[0], &[1], &[0], &[0]), (&[2], &[3], &[0], &[0])]);
        refused(&table, &["overlaps rank 1's", "in [0, 1) (and those of 1 more ranks)"]);
    }

    #[test]
    fn a_hole_names_the_missing_box() {
        let table = table_of(&[(&[0], &[2], &[0], &[2]), (&[2], &[4], &[2], &[6]), (&[5], &[6], &[0], &[0])]);
        refused(
            &table,
            &[
                "rank 1: output box [2, 6) wants [4, 5), which no rank's input holds (1 of 4",
                "BOXWISE_OPTION_ALLOW_UNCOVERED",
            ],
        );
        refused(&with_replicas(table.clone()), &["rank 1: output box [2, 6) wants [4, 5)"]);
        let allowed = Options { allow_uncovered: true, ..Options::default() };
        assert_eq!(agreed(&with_options(table, allowed)), Ok(()));
        // The largest missing box is the one named.
        let table = table_of(&[(&[1], &[2], &[0], &[5])]);
        refused(&table, &["wants [2, 5), which no rank's input holds (4 of 5"]);
    }

    /// Case 21: equal volumes do not make up for an overlap and a hole, whoever wants the missing elements.
    #[test]
    fn overlap_and_hole_of_equal_volume_are_told() {
        let table = table_of(&[(&[0], &[2], &[0], &[2]), (&[0], &[2], &[2], &[4]), (&[4], &[6], &[4], &[6])]);
        refused(&table, &["rank 0: input box [0, 2)", "rank 1's input box [0, 2)"]);
        let table = table_of(&[(&[4], &[6], &[0], &[6]), (&[0], &[2], &[0], &[0]), (&[0], &[2], &[0], &[0])]);
        assert_eq!(check_own(&table, 0), Ok(()), "volumes add up for rank 0");
        refused(&table, &["rank 1: input box [0, 2)", "rank 2's input box [0, 2)"]);
        // More is held than wanted, and still there is a hole.
        let table = table_of(&[(&[0], &[0], &[0], &[3]), (&[0], &[2], &[0], &[0]), (&[0], &[2], &[0], &[0])]);
        refused(&table, &["rank 0: output box [0, 3) wants [2, 3)"]);
        // More is held than wanted, without a hole: the overlapping ranks are told, not the one that wants.
        let table = table_of(&[(&[0], &[0], &[0], &[2]), (&[0], &[2], &[0], &[0]), (&[0], &[2], &[0], &[0])]);
        refused(&table, &["rank 1: input box [0, 2)", "rank 2's input box [0, 2)"]);
    }

    #[test]
    fn empty_boxes_neither_overlap_nor_want() {
        let far = i64::MAX;
        let table = table_of(&[(&[0, 0], &[4, 4], &[0, 0], &[4, 4]), (&[1, 1], &[1, far], &[9, 2], &[far, 2])]);
        assert_eq!(agreed(&table), Ok(()));
        assert_eq!(check_table(&[]), Ok(()));
    }

    #[test]
    fn volumes_of_64_bits_add_up() {
        let (least, most) = (-(1 << 62), (1 << 62) - 1);
        let table = table_sized(&[line(least, 0), line(0, most)], &[line(least, most), line(0, 0)], 1);
        assert_eq!(agreed(&table), Ok(()));
    }

    #[test]
    fn verdicts_match_an_oracle_of_elements() {
        let mut random = fastrand::Rng::with_seed(21);
        let mut seen = [[0; 2]; 4];
        for round in 0..4000 {
            let options =
                Options { allow_replicas: round % 2 == 1, allow_uncovered: round / 2 % 2 == 1, ..Options::default() };
            let table = with_options(random_table(&mut random), options);
            let oracle = Oracle::new(&table);
            let expected = (options.allow_replicas || !oracle.overlap) && (options.allow_uncovered || !oracle.hole);
            let verdict = agreed(&table);
            assert_eq!(verdict.is_ok(), expected, "{table:?}: {verdict:?}");
            seen[round % 4][usize::from(expected)] += 1;
            if let Err(fault) = verdict {
                let rank: usize = fault.detail["rank ".len()..].split(':').next().unwrap().parse().unwrap();
                assert!(oracle.guilty(&table, rank), "{fault} in {table:?}");
            }
        }
        assert!(seen[..3].iter().all(|[refused, accepted]| *refused > 50 && *accepted > 50), "{seen:?}");
    }

    #[test]
    fn every_rank_tells_its_own_fault() {
        let table = table_of(&[(&[0], &[2], &[0], &[2]), (&[1], &[3], &[1], &[4])]);
        let verdicts: Vec<u8> = (0..2).flat_map(|rank| encode_verdict(&check_own(&table, rank))).collect();
        assert!(agree(&verdicts).unwrap_err().detail.starts_with("rank 0: "));
        assert!(agree(&verdicts[VERDICT_BYTES..]).is_err(), "rank 1 is at fault, too");
    }
}
