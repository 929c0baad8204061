//! Whatever one rank passes to make, all ranks return, and all with the same error, which names the guilty rank.

mod common;

use boxwise::plan::{Backend, ExitSync, Options};
use boxwise::{Error, Request, Reshape, Status};
use common::case::Case;
use common::example::slabs;
use common::mix;
use common::ranks::in_threads;
use common::side::{Side, request};

/// Everything one rank can get wrong on its own: what it then asks for, the status, and what the detail names.
fn faults(rank: usize, ranks: usize) -> Vec<(boxwise::Result<Request>, Options, Status, &'static str)> {
    let shape = [6, 8];
    let (input, output) = (slabs(&shape, 0, ranks)[rank].clone(), slabs(&shape, 1, ranks)[rank].clone());
    let with = |change: &dyn Fn(&mut Side, &mut Side)| {
        let (mut input, mut output) = (input.clone(), output.clone());
        change(&mut input, &mut output);
        request(&input, &output, 8)
    };
    let (plain, valid) = (Options::default(), request(&input, &output, 8));
    let invalid = Status::InvalidArgument;
    let mut faults = vec![
        (with(&|input, _| input.upper[0] = input.lower[0] - 1), plain, invalid, "upper[0]"),
        (with(&|_, output| output.upper[1] = output.lower[1] - 3), plain, invalid, "upper[1]"),
        (with(&|input, _| input.upper.truncate(1)), plain, invalid, "upper"),
        (with(&|input, _| *input = Side::packed(&[0; 9], &[1; 9])), plain, invalid, "ndims"),
        (with(&|input, _| *input = Side::packed(&[], &[])), plain, invalid, "ndims"),
        (with(&|input, _| *input = Side::packed(&[0, 0, 0], &[1, 1, 1])), plain, invalid, "dimensions"),
        (with(&|_, output| *output = Side::new(&[0, 0], &[6, 8], Some(&[1, 1]))), plain, invalid, "strides"),
        (with(&|_, output| *output = Side::new(&[0, 0], &[6, 8], Some(&[0, 1]))), plain, invalid, "strides"),
        (with(&|input, _| *input = Side::new(&[0, 0], &[6, 8], Some(&[i64::MAX, 1]))), plain, invalid, "strides[0]"),
        (with(&|input, _| *input = Side::packed(&[i64::MIN, 0], &[8, 1])), plain, invalid, "overflow"),
        (request(&input, &output, 0), plain, invalid, "element_size"),
        (request(&input, &output, 65537), plain, invalid, "element_size"),
        (Err(Error::new(Status::OutOfMemory, "no memory for the arguments")), plain, Status::OutOfMemory, "no memory"),
    ];
    if ranks == 1 {
        return faults;
    }
    let inconsistent = Status::Inconsistent;
    faults.push((request(&input, &output, 4), plain, inconsistent, "element_size"));
    let flat = Side::packed(&[0], &[0]);
    faults.push((request(&flat, &flat, 8), plain, inconsistent, "ndims"));
    let [in_place, allow_replicas, allow_uncovered] = [true; 3];
    for (options, name) in [
        (Options { in_place, ..plain }, "BOXWISE_OPTION_IN_PLACE"),
        (Options { allow_replicas, ..plain }, "BOXWISE_OPTION_ALLOW_REPLICAS"),
        (Options { allow_uncovered, ..plain }, "BOXWISE_OPTION_ALLOW_UNCOVERED"),
        (Options { entry_sync: false, ..plain }, "BOXWISE_OPTION_ENTRY_SYNC"),
        (Options { exit_sync: ExitSync::Everyone, ..plain }, "BOXWISE_OPTION_EXIT_SYNC"),
        (Options { threads: 2, ..plain }, "BOXWISE_OPTION_THREADS"),
        (Options { timeout_ms: 50_000, ..plain }, "BOXWISE_OPTION_TIMEOUT_MS"),
        (Options { backend: Backend::Host, ..plain }, "BOXWISE_OPTION_BACKEND"),
    ] {
        faults.push((valid.clone(), options, inconsistent, name));
    }
    // Boxes that are fine alone but do not fit the others': a hole, an overlap, both of equal volume.
    let here = if rank == 0 { 1 } else { 0 };
    let theirs = slabs(&shape, 0, ranks)[here].clone();
    faults.push((with(&|input, _| input.upper = input.lower.clone()), plain, inconsistent, "no rank's input holds"));
    faults.push((with(&|input, _| *input = Side::packed(&[0, 0], &[6, 8])), plain, inconsistent, "overlaps"));
    faults.push((with(&|input, _| *input = theirs.clone()), plain, inconsistent, "overlaps"));
    faults.push((with(&|_, output| output.upper[0] += 1), plain, inconsistent, "no rank's input holds"));
    faults
}

#[test]
fn case_16_one_faulty_rank_gives_the_same_error_on_all() {
    for ranks in [1, 2, 3, 5] {
        for guilty in 0..ranks {
            let count = faults(guilty, ranks).len();
            let seen = in_threads(ranks, |comm| {
                let rank = comm.rank();
                let (input, output) = (&slabs(&[6, 8], 0, ranks)[rank], &slabs(&[6, 8], 1, ranks)[rank]);
                let valid = request(input, output, 8);
                let mut errors = Vec::new();
                for fault in 0..count {
                    let (request, options, ..) = match rank == guilty {
                        true => faults(rank, ranks).swap_remove(fault),
                        false => (valid.clone(), Options::default(), Status::Success, ""),
                    };
                    errors.push(Reshape::make(&comm, request, &options).err());
                    // The communicator is none the worse for it.
                    Reshape::make(&comm, valid.clone(), &Options::default()).expect("a valid make after a faulty one");
                }
                errors
            });
            for (fault, (_, _, status, name)) in faults(guilty, ranks).iter().enumerate() {
                let what = format!("{ranks} ranks, {guilty} guilty of {name:?} (fault {fault})");
                let first = seen[0][fault].as_ref().unwrap_or_else(|| panic!("{what}: accepted"));
                assert_eq!(first.status, *status, "{what}: {first}");
                assert!(first.detail.contains(name), "{what}: {first}");
                assert!(first.detail.contains("rank "), "{what}: {first}");
                // An overlap or a hole may be the fault of a lower rank; everything else is that of one.
                let shared = ["overlaps", "no rank's input holds"].contains(name);
                assert!(
                    shared || guilty == 0 || first.detail.starts_with(&format!("rank {guilty}: ")),
                    "{what}: {first}"
                );
                assert!(seen.iter().all(|errors| errors[fault].as_ref() == Some(first)), "{what}");
            }
        }
    }
}

/// Random boxes that overlap or leave holes: one error, the same text everywhere, of a rank that is guilty.
#[test]
fn random_misfits_are_told_alike_on_all_ranks() {
    let first = fastrand::u64(..);
    println!("seeds from {first}");
    let mut refused = 0;
    for ranks in 1..=8 {
        let seeds = (0..700).map(|index| mix(&[first, ranks as u64, index]));
        let cases: Vec<Case> = seeds.map(|seed| Case::new(seed, ranks)).collect();
        let cases: Vec<&Case> = cases.iter().filter(|case| !case.guilty_ranks().is_empty()).collect();
        let seen = in_threads(ranks, |comm| {
            let rank = comm.rank();
            let ask = |case: &&Case| {
                let request = request(&case.inputs[rank], &case.outputs[rank], case.element_size);
                Reshape::make(&comm, request, &case.options).map(drop)
            };
            cases.iter().map(ask).collect::<Vec<_>>()
        });
        for (index, case) in cases.iter().enumerate() {
            let first = seen[0][index].as_ref().expect_err(&format!("{case:#?}"));
            let told = |rank: &usize| first.detail.starts_with(&format!("rank {rank}: "));
            assert_eq!(first.status, Status::Inconsistent, "{case:#?}");
            assert!(case.guilty_ranks().iter().any(told), "{first}\n{case:#?}");
            assert!(seen.iter().all(|results| results[index].as_ref() == Err(first)), "{first}\n{case:#?}");
        }
        refused += cases.len();
    }
    assert!(refused > 200, "{refused} misfits");
}

/// Memory is agreed on like a plan: one rank's fault is everybody's, and nothing is the worse for it.
#[test]
fn memory_that_one_rank_cannot_have_nobody_gets() {
    let wishes = [
        (Err(Error::invalid_argument("bytes is not a number")), Status::InvalidArgument),
        (Ok(usize::MAX), Status::OutOfMemory),
        (Ok(isize::MAX as usize), Status::OutOfMemory),
        (Ok(1 << 50), Status::OutOfMemory),
    ];
    for guilty in 0..3 {
        let seen = in_threads(3, |comm| {
            let ask = |(wish, _): &(boxwise::Result<usize>, Status)| {
                let bytes = if comm.rank() == guilty { wish.clone() } else { Ok(1000) };
                let told = comm.malloc(bytes).expect_err("one rank cannot have it");
                let pointer = comm.malloc(Ok(1000)).expect("a modest wish");
                // SAFETY: the memory is this rank's, and as long as that.
                unsafe { pointer.write_bytes(7, 1000) };
                comm.free(pointer).expect("memory of this communicator");
                assert_eq!(comm.free(pointer).unwrap_err().status, Status::InvalidArgument, "freed twice");
                told
            };
            let foreign = (&raw const guilty).cast_mut().cast();
            assert_eq!(comm.free(foreign).unwrap_err().status, Status::InvalidArgument, "foreign memory");
            wishes.iter().map(ask).collect::<Vec<_>>()
        });
        for (index, (_, status)) in wishes.iter().enumerate() {
            let first = &seen[0][index];
            assert_eq!(first.status, *status, "{first}");
            assert!(seen.iter().all(|told| told[index] == *first), "{seen:?}");
        }
    }
}
