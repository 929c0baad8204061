//! Inputs that broke other libraries, each with the right value: one test per case, ranks as threads.
//!
//! Case 2 needs MPI. Case 16 is in `make_agrees.rs`; cases 17 and 20 measure the whole process and are in
//! `exec_allocates_nothing.rs`.

mod common;

use boxwise::geometry::{IndexBox, Placement};
use boxwise::plan::{Descriptor, ExitSync, Options, Schedule, check_own, check_table};
use boxwise::{Communicator, Reshape, Status};
use common::boots;
use common::example::{case, grid, holds, moves, share, slabs};
use common::memory::Kinds;
use common::play::Player;
use common::ranks::{in_threads, together};
use common::side::{Side, request};

/// Redistributes `value(index)` in plain memory; what each rank then holds, in the order of its memory.
fn exchange(inputs: &[Side], outputs: &[Side], value: impl Fn(&[i64]) -> i64 + Sync) -> Vec<Vec<i64>> {
    in_threads(inputs.len(), |comm| {
        let (input, output) = (&inputs[comm.rank()], &outputs[comm.rank()]);
        let reshape = Reshape::make(&comm, request(input, output, 8), &Options::default()).expect("make");
        let mut held = vec![-1; input.volume() as usize];
        input.for_each(|point, place| held[place as usize] = value(point));
        let mut got = vec![-1; output.volume() as usize];
        let nowhere = std::ptr::null_mut();
        // SAFETY: both arrays are as large as their boxes and live until the call returns.
        unsafe { reshape.exec(got.as_mut_ptr().cast(), held.as_ptr().cast(), nowhere, None) }.expect("exec");
        got
    })
}

fn row_major(shape: &[i64]) -> impl Fn(&[i64]) -> i64 + Sync {
    move |point| point.iter().zip(shape).fold(0, |index, (g, extent)| index * extent + g)
}

/// What `exchange` must return.
fn expected(outputs: &[Side], value: impl Fn(&[i64]) -> i64) -> Vec<Vec<i64>> {
    let one = |output: &Side| {
        let mut right = vec![-1; output.volume() as usize];
        output.for_each(|point, place| right[place as usize] = value(point));
        right
    };
    outputs.iter().map(one).collect()
}

fn descriptors(inputs: &[Side], outputs: &[Side], element_size: usize) -> Vec<Descriptor> {
    let all = inputs.iter().zip(outputs).enumerate();
    all.map(|(rank, (input, output))| Descriptor {
        rank,
        node: 0,
        description: request(input, output, element_size),
        options: Options::default(),
    })
    .collect()
}

#[test]
fn case_01_sizes_past_32_bits_are_exact() {
    let whole = [Side::packed(&[0, 0, 0], &[2048, 1024, 1024])];
    let table = descriptors(&whole, &whole, 16);
    check_table(&table).and_then(|()| check_own(&table, 0)).expect("valid");
    let schedule = Schedule::build(&table, 0);
    assert_eq!(schedule.info.bytes_kept, 16 << 31);
    assert_eq!((schedule.info.bytes_sent, schedule.info.bytes_received), (0, 0));
    assert_eq!(schedule.keep.iter().map(|transfer| transfer.index_box.volume()).sum::<i64>(), 1 << 31);

    let halves = slabs(&[2048, 1024, 1024], 0, 2);
    let others = slabs(&[2048, 1024, 1024], 2, 2);
    for rank in 0..2 {
        let info = Schedule::build(&descriptors(&halves, &others, 16), rank).info;
        assert_eq!((info.bytes_kept, info.bytes_sent, info.bytes_received), (4 << 31, 4 << 31, 4 << 31));
    }

    for bytes in [(1i64 << 31) - 1, 1 << 31, (1 << 31) + 1, 1 << 33] {
        let line = [Side::packed(&[0], &[bytes]), Side::packed(&[0], &[0])];
        let moved = [line[1].clone(), line[0].clone()];
        let table = descriptors(&line, &moved, 1);
        assert_eq!(Schedule::build(&table, 0).info.bytes_sent, bytes as u64);
        assert_eq!(Schedule::build(&table, 1).info.bytes_received, bytes as u64);
    }

    let index_box = IndexBox::new(&[0, 0], &[1 << 31, 1 << 30]).expect("2^61 elements");
    assert!(Placement::input(index_box, None, 2).is_ok());
    assert!(Placement::input(index_box, None, 4).unwrap_err().contains("overflow"));
    let too_large = request(&Side::packed(&[0, 0], &[1 << 31, 1 << 30]), &Side::packed(&[0, 0], &[0, 0]), 4);
    assert_eq!(too_large.unwrap_err().status, Status::InvalidArgument);
}

#[test]
fn case_03_order_survives_a_change_of_the_split_dimension() {
    let shape = [9, 6];
    let got = exchange(&slabs(&shape, 1, 2), &slabs(&shape, 0, 2), row_major(&shape));
    assert_eq!(got[0], (0..30).collect::<Vec<i64>>());
    assert_eq!(got[1], (30..54).collect::<Vec<i64>>());
    moves(slabs(&shape, 1, 2), slabs(&shape, 0, 2), 8);
    moves(slabs(&shape, 0, 2), slabs(&shape, 1, 2), 3);
}

#[test]
fn case_04_uneven_counts_to_even_counts() {
    let mut first = 0;
    let inputs = [0, 0, 2, 3, 3, 3, 0].map(|count| {
        first += count;
        Side::packed(&[first - count], &[first])
    });
    // 14 elements: counts 0, 0, 2, 3, 3, 3, 3.
    let mut inputs = inputs.to_vec();
    inputs[6] = Side::packed(&[11], &[14]);
    let outputs = slabs(&[14], 0, 7);
    let got = exchange(&inputs, &outputs, |point| point[0]);
    for (rank, values) in got.iter().enumerate() {
        assert_eq!(*values, [2 * rank as i64, 2 * rank as i64 + 1]);
    }
    moves(inputs, outputs, 8);
}

#[test]
fn case_05_a_block_as_large_as_the_array_leaves_a_rank_empty() {
    let inputs = vec![Side::packed(&[0, 0, 0], &[6, 5, 4]), Side::packed(&[0, 5, 0], &[6, 5, 4])];
    let outputs = slabs(&[6, 5, 4], 0, 2);
    let got = exchange(&inputs, &outputs, row_major(&[6, 5, 4]));
    assert_eq!(got, [(0..60).collect::<Vec<i64>>(), (60..120).collect()]);
    moves(inputs.clone(), outputs.clone(), 8);
    moves(outputs, inputs, 8);
}

#[test]
fn case_06_fewer_planes_than_ranks() {
    for (from, to) in [(0, 2), (2, 0), (1, 0), (0, 1)] {
        moves(slabs(&[2, 2, 3], from, 3), slabs(&[2, 2, 3], to, 3), 8);
    }
    for (a, b) in [(2, 2), (2, 3), (3, 2)] {
        let flat = [5, 5, 1];
        moves(grid(&flat, &[1, a, b]), grid(&flat, &[a, 1, b]), 16);
        moves(grid(&flat, &[a, 1, b]), grid(&flat, &[a, b, 1]), 16);
        let line = [1, 1, 7];
        moves(grid(&line, &[1, a, b]), grid(&line, &[a, b, 1]), 4);
        moves(grid(&line, &[a, b, 1]), grid(&line, &[a, 1, b]), 4);
    }
}

#[test]
fn case_07_remainder_planes_of_a_large_grid_are_covered_once() {
    let shape = [2512i64; 3];
    let total: u64 = shape.iter().map(|&extent| extent as u64).product::<u64>() * 16;
    for (from, to) in [([1, 16, 32], [16, 1, 32]), ([16, 1, 32], [16, 32, 1])] {
        let table = descriptors(&grid(&shape, &from), &grid(&shape, &to), 16);
        check_table(&table).expect("valid");
        let (mut kept, mut sent, mut received) = (0, 0, 0);
        for rank in 0..512 {
            check_own(&table, rank).expect("valid");
            let schedule = Schedule::build(&table, rank);
            kept += schedule.info.bytes_kept;
            sent += schedule.info.bytes_sent;
            received += schedule.info.bytes_received;
            let arriving = schedule.keep.iter().chain(schedule.peers.iter().flat_map(|peer| &peer.receive));
            let boxes: Vec<IndexBox> = arriving.map(|transfer| transfer.index_box).collect();
            let output = *table[rank].description.as_ref().unwrap().output.index_box();
            assert!(boxes.iter().all(|b| output.contains(b)));
            assert_eq!(boxes.iter().map(IndexBox::volume).sum::<i64>(), output.volume());
            assert!((0..boxes.len()).all(|i| boxes[..i].iter().all(|other| other.intersect(&boxes[i]).is_none())));
        }
        assert_eq!((kept + received, kept + sent), (total, total));
    }
}

#[test]
fn case_08_ranks_with_nothing_to_do_still_take_part() {
    let rows = |first: i64, last: i64| Side::packed(&[first, 0], &[last, 256]);
    let inputs = vec![rows(0, 2), rows(2, 4), rows(4, 6), rows(6, 6)];
    let columns = slabs(&[6, 256], 1, 4);
    moves(inputs.clone(), columns.clone(), 8);
    moves(columns, inputs.clone(), 8);
    // Rank 3 neither sends nor receives, whatever synchronisation is asked for.
    for exit_sync in [ExitSync::Output, ExitSync::Input, ExitSync::Everyone] {
        for entry_sync in [false, true] {
            let outputs = vec![rows(3, 6), rows(0, 1), rows(1, 3), rows(6, 6)];
            let options = Options { exit_sync, entry_sync, ..Options::default() };
            holds(&case(inputs.clone(), outputs, 8, options));
        }
    }
    let nothing = vec![Side::packed(&[0, 3], &[9, 3]); 3];
    moves(nothing.clone(), nothing, 8);
}

/// Reals with room for the transform behind them: `n` of `2 (n/2 + 1)` along the last dimension are valid.
fn with_room_for_a_transform(side: &Side, n: i64) -> Side {
    let row = 2 * (n / 2 + 1);
    let strides = [side.extent(1) * row, row, 1];
    Side::new(&side.lower, &side.upper, Some(&strides))
}

#[test]
fn case_09_only_the_valid_part_of_a_padded_array_moves() {
    for n in [5, 8] {
        let padded =
            |sides: Vec<Side>| -> Vec<Side> { sides.iter().map(|side| with_room_for_a_transform(side, n)).collect() };
        let shape = [n; 3];
        for ranks in [1, 2, 3] {
            moves(padded(slabs(&shape, 0, ranks)), slabs(&shape, 1, ranks), 8);
            moves(slabs(&shape, 1, ranks), padded(slabs(&shape, 0, ranks)), 8);
            let in_place = Options { in_place: true, ..Options::default() };
            holds(&case(padded(slabs(&shape, 0, ranks)), padded(slabs(&shape, 1, ranks)), 8, in_place));
        }
    }
}

#[test]
fn case_10_five_dimensions_in_another_order() {
    let shape = [3, 32, 32, 16, 3];
    for ranks in [2, 4] {
        let permuted: Vec<Side> = slabs(&shape, 2, ranks)
            .iter()
            .map(|side| Side::ordered(&side.lower, &side.upper, &[0, 1, 4, 3, 2]))
            .collect();
        moves(slabs(&shape, 1, ranks), permuted.clone(), 4);
        moves(permuted, slabs(&shape, 3, ranks), 4);
    }
}

#[test]
fn case_11_strides_of_extent_one_do_not_matter() {
    let inputs =
        vec![Side::new(&[0, 0, 0], &[8, 4, 1], Some(&[1, 8, 0])), Side::new(&[0, 4, 0], &[8, 8, 1], Some(&[1, 8, 0]))];
    let outputs = slabs(&[8, 8, 1], 0, 2);
    let got = exchange(&inputs, &outputs, row_major(&[8, 8, 1]));
    assert_eq!(got, [(0..32).collect::<Vec<i64>>(), (32..64).collect()]);
    moves(inputs.clone(), outputs.clone(), 8);
    moves(outputs, inputs, 8);
}

#[test]
fn case_12_input_and_output_boxes_are_shifted_apart() {
    let inputs = vec![
        Side::new(&[-7, 10], &[-4, 14], Some(&[9, 2])),
        Side::new(&[-4, 10], &[-1, 14], Some(&[1, 5])),
        Side::new(&[-7, 14], &[-1, 17], Some(&[-4, -1])),
    ];
    let outputs = vec![
        Side::new(&[-6, 11], &[-2, 16], Some(&[7, 1])),
        Side::new(&[-7, 10], &[-1, 17], Some(&[1, 11])),
        Side::new(&[-3, 13], &[-1, 17], Some(&[-6, 1])),
    ];
    moves(inputs, outputs, 12);
}

#[test]
fn case_13_pencils_round_trip_on_grids_that_are_not_square() {
    for (shape, a, b) in [([5, 7, 9], 2, 2), ([6, 11, 4], 2, 3), ([13, 3, 8], 3, 2)] {
        let pencils = [grid(&shape, &[a, b, 1]), grid(&shape, &[a, 1, b]), grid(&shape, &[1, a, b])];
        for pair in [[0, 1], [1, 2], [2, 1], [1, 0], [0, 2]] {
            let got = exchange(&pencils[pair[0]], &pencils[pair[1]], row_major(&shape));
            assert_eq!(got, expected(&pencils[pair[1]], row_major(&shape)), "{shape:?} on {a} x {b}, {pair:?}");
            moves(pencils[pair[0]].clone(), pencils[pair[1]].clone(), 8);
        }
        round_trip(&pencils, row_major(&shape));
    }
}

/// X to Y to Z pencils and back, each step from where the last one put the data.
fn round_trip(pencils: &[Vec<Side>; 3], value: impl Fn(&[i64]) -> i64 + Sync) {
    let start = expected(&pencils[0], &value);
    let end = in_threads(pencils[0].len(), |comm| {
        let rank = comm.rank();
        let mut data = start[rank].clone();
        for (from, to) in [(0, 1), (1, 2), (2, 1), (1, 0)] {
            let (input, output) = (&pencils[from][rank], &pencils[to][rank]);
            let reshape = Reshape::make(&comm, request(input, output, 8), &Options::default()).expect("make");
            let mut next = vec![-1i64; output.volume() as usize];
            // SAFETY: both arrays are as large as their boxes and live until the call returns.
            unsafe { reshape.exec(next.as_mut_ptr().cast(), data.as_ptr().cast(), std::ptr::null_mut(), None) }
                .expect("exec");
            data = next;
        }
        data
    });
    assert_eq!(end, start);
}

#[test]
fn case_14_a_long_contiguous_dimension() {
    let shape = [2, 2, 16384];
    for (from, to) in [(0, 1), (0, 2), (2, 1)] {
        moves(slabs(&shape, from, 2), slabs(&shape, to, 2), 16);
    }
}

#[test]
fn case_15_in_place_works_where_asked_for_and_is_refused_where_not() {
    let in_place = Options { in_place: true, ..Options::default() };
    for shape in [[2, 3, 2], [7, 6, 5], [16, 20, 12]] {
        for ranks in [1, 2, 3, 5] {
            for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 0)] {
                holds(&case(slabs(&shape, from, ranks), slabs(&shape, to, ranks), 8, in_place));
            }
        }
    }

    let (inputs, outputs) = (slabs(&[2, 3, 2], 0, 2), slabs(&[2, 3, 2], 1, 2));
    let errors = in_threads(2, |comm| {
        let (input, output) = (&inputs[comm.rank()], &outputs[comm.rank()]);
        let reshape = Reshape::make(&comm, request(input, output, 8), &Options::default()).expect("make");
        let mut data = [7u64; 16];
        let pointer: *mut u8 = data.as_mut_ptr().cast();
        // SAFETY: the array is large enough for both boxes.
        let result = unsafe { reshape.exec(pointer, pointer.add(8), std::ptr::null_mut(), None) };
        (result.expect_err("the output overlaps the input"), data)
    });
    for (error, data) in errors {
        assert_eq!(error.status, Status::InvalidArgument, "{error}");
        assert!(error.detail.contains("BOXWISE_OPTION_IN_PLACE"), "{error}");
        assert_eq!(data, [7; 16], "nothing was written");
    }
}

#[test]
fn case_18_nothing_is_not_out_of_memory() {
    let found = in_threads(3, |comm| {
        let none = comm.allocate(0).expect("no bytes at all");
        let some = comm.allocate(comm.rank() * 100).expect("none on rank 0 only");
        let pointer = comm.malloc(Ok(0)).expect("no bytes at all");
        comm.free(pointer).expect("what malloc gave");
        comm.free(std::ptr::null_mut()).expect("NULL is freed like nothing");
        assert_eq!((none.len(), some.len()), (0, comm.rank() * 100));
        // Everything on rank 1; the others have no memory.
        let whole = Side::packed(&[0], &[4]);
        let empty = Side::packed(&[4], &[4]);
        let input = if comm.rank() == 1 { &whole } else { &empty };
        let output = if comm.rank() == 2 { &whole } else { &empty };
        let reshape = Reshape::make(&comm, request(input, output, 8), &Options::default()).expect("make");
        let (held, mut got) = ([1i64, 2, 3, 4], [0i64; 4]);
        let from = if comm.rank() == 1 { held.as_ptr().cast() } else { std::ptr::null() };
        let to = if comm.rank() == 2 { got.as_mut_ptr().cast() } else { std::ptr::null_mut() };
        // SAFETY: whoever holds or wants something passes an array of that size.
        unsafe { reshape.exec(to, from, std::ptr::null_mut(), None) }.expect("exec");
        got
    });
    assert_eq!(found, [[0; 4], [0; 4], [1, 2, 3, 4]]);
}

#[test]
fn case_19_two_plans_on_overlapping_subsets_of_ranks() {
    // Ranks 0 and 1 are one communicator, 1 and 2 another; rank 1 uses both, in turn and from two threads.
    let members: Vec<_> = boots::group(2).into_iter().zip([false, true]).collect();
    let others: Vec<_> = boots::group(2).into_iter().zip([true, false]).collect();
    let play = |comm: Communicator, seed: u64| {
        let mut player = Player::new(comm.clone(), Kinds::Mixed).expect("memory");
        for round in 0..60 {
            let case = common::case::Case::new(seed + round, 2);
            player.play(&case).unwrap_or_else(|fault| panic!("rank {}: {fault:?}\n{case:?}", comm.rank()));
        }
    };
    let play = &play;
    let mut tasks: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for (seed, group) in [(1000, members), (2000, others)] {
        for (boot, _) in group {
            tasks.push(Box::new(move || play(Communicator::from_boot(Box::new(boot)).expect("a communicator"), seed)));
        }
    }
    together(tasks);

    // In turn: one thread is the middle rank of both.
    let (mut left, mut right) = (boots::group(2), boots::group(2));
    let (ends, middle) = ([left.swap_remove(0), right.swap_remove(1)], [left.remove(0), right.remove(0)]);
    let shift = |comm: &Communicator| {
        let sides = slabs(&[10], 0, 2);
        let (input, output) = (&sides[comm.rank()], &sides[1 - comm.rank()]);
        Reshape::make(comm, request(input, output, 8), &Options::default()).expect("make")
    };
    let exec = |reshape: &Reshape, value: i64| {
        let (held, mut got) = ([value; 5], [0i64; 5]);
        // SAFETY: both arrays hold the five elements of the boxes.
        unsafe { reshape.exec(got.as_mut_ptr().cast(), held.as_ptr().cast(), std::ptr::null_mut(), None) }
            .expect("exec");
        got
    };
    let (shift, exec) = (&shift, &exec);
    let mut tasks: Vec<Box<dyn FnOnce() + Send>> = Vec::new();
    for (end, sign) in ends.into_iter().zip([1, -1]) {
        tasks.push(Box::new(move || {
            let comm = Communicator::from_boot(Box::new(end)).expect("a communicator");
            let reshape = shift(&comm);
            for round in 0..200 {
                assert_eq!(exec(&reshape, sign * round), [sign * (1000 + round); 5]);
            }
        }));
    }
    tasks.push(Box::new(move || {
        let comms = middle.map(|boot| Communicator::from_boot(Box::new(boot)).expect("a communicator"));
        let reshapes = comms.each_ref().map(shift);
        for round in 0..200 {
            assert_eq!(exec(&reshapes[0], 1000 + round), [round; 5]);
            assert_eq!(exec(&reshapes[1], -1000 - round), [-round; 5]);
        }
    }));
    together(tasks);
}

#[test]
fn case_21_overlap_and_hole_of_equal_volume() {
    let line = |lower, upper| Side::packed(&[lower], &[upper]);
    let inputs = [line(0, 2), line(0, 2), line(4, 6)];
    let outputs = slabs(&[6], 0, 3);
    let errors = in_threads(3, |comm| {
        let request = request(&inputs[comm.rank()], &outputs[comm.rank()], 8);
        Reshape::make(&comm, request, &Options::default()).expect_err("must be refused")
    });
    assert_eq!(errors[0].status, Status::Inconsistent);
    assert!(errors[0].detail.contains("rank 0") && errors[0].detail.contains("rank 1"), "{}", errors[0]);
    assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
}

#[test]
fn case_22_uneven_shards_are_taken_as_given() {
    let mut first = 0;
    let shards: Vec<Side> = [2, 3, 4, 5]
        .into_iter()
        .map(|columns| {
            first += columns;
            Side::packed(&[0, first - columns], &[2, first])
        })
        .collect();
    let even = slabs(&[2, 14], 1, 4);
    assert_eq!(share(14, 0, 4), (0, 4));
    let value = row_major(&[2, 14]);
    assert_eq!(exchange(&shards, &even, &value), expected(&even, &value));
    assert_eq!(exchange(&even, &shards, &value), expected(&shards, &value));
    moves(shards.clone(), slabs(&[2, 14], 0, 4), 8);
    moves(slabs(&[2, 14], 0, 4), shards, 8);
}
