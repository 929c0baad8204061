//! Inputs on which other libraries failed, as far as planning decides them, and plans of very many ranks.

use super::samples::{
    agreed, check_exact, execute, grid, line, numbered, table_between, table_of, table_sized, with_options,
};
use super::{Descriptor, Options, Request, Schedule, Transfer, check_own, check_table};
use crate::geometry::{IndexBox, Placement};
use std::time::{Duration, Instant};

fn boxed(lower: &[i64], upper: &[i64]) -> IndexBox {
    IndexBox::new(lower, upper).unwrap()
}

#[test]
fn sizes_past_32_bits_are_exact() {
    let cube = boxed(&[0, 0, 0], &[2048, 1024, 1024]);
    let schedule = Schedule::build(&table_between(&[cube], &[cube]), 0);
    assert_eq!(schedule.info.bytes_kept, 1 << 34);
    assert_eq!((schedule.keep.len(), schedule.keep[0].nest.run_bytes), (1, 1 << 34));

    for elements in [(1i64 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 33] {
        for element_size in [1, 2, 16, 65536] {
            let whole = elements as u64 * element_size as u64;
            // Rank 0 holds all but the last element, rank 1 wants everything; in place, so that it is staged.
            let inputs = [line(0, elements - 1), line(elements - 1, elements)];
            let table = table_sized(&inputs, &[line(0, 0), line(0, elements)], element_size);
            let table = with_options(table, Options { in_place: true, ..Options::default() });
            assert_eq!(agreed(&table), Ok(()));
            let (sender, receiver) = (Schedule::build(&table, 0), Schedule::build(&table, 1));
            let step = element_size as u64;
            assert_eq!(sender.info.bytes_sent, whole - step);
            assert_eq!(sender.workspace_bytes as u64, whole - step);
            assert_eq!(receiver.info.bytes_received, whole - step);
            assert_eq!(receiver.info.bytes_kept, step);
            assert_eq!(receiver.keep[0].nest.dst_start as u64, whole - step);
        }
    }
    assert!(Placement::input(line(0, 1 << 60), None, 16).unwrap_err().contains("overflows"));
}

#[test]
fn split_along_1_to_split_along_0() {
    let shape = [9, 6];
    check_exact(&table_between(&grid(&shape, &[1, 2]), &grid(&shape, &[2, 1])), &shape);
}

#[test]
fn uneven_counts_to_even_counts() {
    let mut start = 0;
    let inputs: Vec<IndexBox> = [0, 0, 2, 3, 3, 3, 3]
        .into_iter()
        .map(|count| {
            start += count;
            line(start - count, start)
        })
        .collect();
    let table = table_between(&inputs, &grid(&[14], &[7]));
    check_exact(&table, &[14]);
    let inputs: Vec<_> = table.iter().map(|d| numbered(&d.request().input, &[14])).collect();
    for (rank, memory) in execute(&table, &inputs).iter().enumerate() {
        let expected: Vec<u8> = [2 * rank, 2 * rank + 1].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(*memory, expected);
    }
}

#[test]
fn a_block_as_long_as_the_array_leaves_a_rank_empty() {
    let shape = [6, 5, 4];
    let blocks = [boxed(&[0, 0, 0], &[6, 5, 4]), boxed(&[0, 5, 0], &[6, 5, 4])];
    let table = table_between(&blocks, &grid(&shape, &[2, 1, 1]));
    check_exact(&table, &shape);
    assert!(Schedule::build(&table, 1).keep.is_empty());
    check_exact(&table_between(&grid(&shape, &[2, 1, 1]), &blocks), &shape);
}

#[test]
fn more_ranks_than_planes() {
    for (shape, from, to) in [
        ([2, 2, 3], [3, 1, 1], [1, 3, 1]),
        ([2, 2, 3], [1, 1, 3], [3, 1, 1]),
        ([5, 5, 1], [2, 3, 1], [1, 2, 3]),
        ([5, 5, 1], [1, 2, 3], [3, 2, 1]),
        ([1, 1, 7], [2, 2, 1], [1, 2, 2]),
        ([1, 1, 7], [1, 1, 4], [4, 1, 1]),
    ] {
        check_exact(&table_between(&grid(&shape, &from), &grid(&shape, &to)), &shape);
    }
}

#[test]
fn remainder_planes_on_a_large_grid_are_covered_once() {
    let shape = [2512, 2512, 2512];
    let pencils = [grid(&shape, &[1, 16, 32]), grid(&shape, &[16, 1, 32]), grid(&shape, &[16, 32, 1])];
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let table = table_between(&pencils[from], &pencils[to]);
        assert_eq!(agreed(&table), Ok(()));
        let mut elements = 0;
        for rank in 0..table.len() {
            let schedule = Schedule::build(&table, rank);
            let output = schedule.request.output.index_box();
            let received = schedule.peers.iter().flat_map(|peer| &peer.receive);
            let parts: Vec<IndexBox> = schedule.keep.iter().chain(received).map(|t| t.index_box).collect();
            for (at, part) in parts.iter().enumerate() {
                assert!(output.contains(part) && parts[..at].iter().all(|other| other.intersect(part).is_none()));
            }
            let volume: i64 = parts.iter().map(IndexBox::volume).sum();
            assert_eq!(volume, output.volume());
            elements += volume;
        }
        assert_eq!(elements, 2512 * 2512 * 2512);
    }
}

#[test]
fn ranks_with_nothing_to_send_or_receive() {
    let shape = [6, 256];
    let rows = [0, 2, 4, 6, 6].windows(2).map(|r| boxed(&[r[0], 0], &[r[1], 256])).collect::<Vec<_>>();
    check_exact(&table_between(&rows, &grid(&shape, &[1, 4])), &shape);
    check_exact(&table_between(&grid(&shape, &[1, 4]), &rows), &shape);
    let table = table_between(&rows, &rows);
    check_exact(&table, &shape);
    let idle = Schedule::build(&table, 3);
    assert!(idle.keep.is_empty() && idle.peers.is_empty());
}

#[test]
fn strides_of_extent_one_do_not_matter() {
    let halves = [boxed(&[0, 0, 0], &[8, 4, 1]), boxed(&[0, 4, 0], &[8, 8, 1])];
    let mut table = table_between(&halves, &grid(&[8, 8, 1], &[2, 1, 1]));
    for (descriptor, half) in table.iter_mut().zip(halves) {
        let input = Placement::input(half, Some(&[1, 8, 0]), 8).unwrap();
        descriptor.description = Request::new(input, descriptor.request().output);
        assert_eq!(Descriptor::decode(&descriptor.encode()).as_ref(), Ok(&*descriptor));
    }
    check_exact(&table, &[8, 8, 1]);
}

#[test]
fn pencils_there_and_back_are_the_identity() {
    let shape = [5, 7, 11];
    for (rows, columns) in [(2, 2), (2, 3), (3, 2)] {
        let x = grid(&shape, &[1, rows, columns]);
        let y = grid(&shape, &[rows, 1, columns]);
        let z = grid(&shape, &[rows, columns, 1]);
        let start: Vec<_> = x.iter().map(|b| numbered(&Placement::output(*b, None, 8).unwrap(), &shape)).collect();
        let mut memory = start.clone();
        for (from, to) in [(&x, &y), (&y, &z), (&z, &y), (&y, &x)] {
            for options in [Options::default(), Options { in_place: true, ..Options::default() }] {
                check_exact(&with_options(table_between(from, to), options), &shape);
            }
            memory = execute(&table_between(from, to), &memory);
        }
        assert_eq!(memory, start);
    }
}

#[test]
fn a_long_contiguous_dimension() {
    let shape = [2, 2, 16384];
    check_exact(&table_between(&grid(&shape, &[2, 2, 1]), &grid(&shape, &[1, 1, 4])), &shape);
    check_exact(&table_between(&grid(&shape, &[1, 1, 4]), &grid(&shape, &[2, 2, 1])), &shape);
}

#[test]
fn boxes_are_taken_as_given() {
    let columns = [0, 2, 5, 9, 14].windows(2).map(|c| boxed(&[0, c[0]], &[2, c[1]])).collect::<Vec<_>>();
    check_exact(&table_between(&columns, &grid(&[2, 14], &[2, 2])), &[2, 14]);
    check_exact(&table_between(&grid(&[2, 14], &[2, 2]), &columns), &[2, 14]);
}

#[test]
fn overlapping_outputs_are_a_broadcast() {
    let table = table_of(&[(&[0], &[4], &[0], &[4]), (&[4], &[4], &[0], &[4]), (&[4], &[4], &[1], &[3])]);
    check_exact(&table, &[4]);
    assert_eq!(Schedule::build(&table, 0).info.peers_sent_to, 2);
}

#[test]
fn one_rank_of_a_hundred_thousand_plans_at_once() {
    let shape = [1000, 1250, 1600];
    let table = table_between(&grid(&shape, &[1, 250, 400]), &grid(&shape, &[250, 400, 1]));
    assert_eq!(table.len(), 100_000);
    let start = Instant::now();
    let table: Vec<Descriptor> = table.iter().map(|d| Descriptor::decode(&d.encode()).unwrap()).collect();
    assert_eq!(check_table(&table), Ok(()));
    for rank in [0, 61_803, 99_999] {
        assert_eq!(check_own(&table, rank), Ok(()));
        let schedule = Schedule::build(&table, rank);
        let info = &schedule.info;
        assert_eq!(info.bytes_kept + info.bytes_received, schedule.request.output.bytes() as u64);
        assert_eq!(info.bytes_kept + info.bytes_sent, schedule.request.input.bytes() as u64);
        let received: u64 = schedule.peers.iter().flat_map(|peer| &peer.receive).map(Transfer::bytes).sum();
        assert_eq!(received, info.bytes_received);
        assert!(info.peers_sent_to >= 249 && schedule.peers.len() < 5000, "{}", schedule.peers.len());
    }
    // A step that looks at all pairs of ranks would take minutes.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
