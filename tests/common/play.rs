//! One rank's part in a random case: make, prepare buffers, execute, compare every byte.

use super::case::Case;
#[cfg(feature = "cuda")]
use super::gpu;
use super::memory::{Area, Kinds, Supply};
use super::oracle::byte_at;
use super::shapes::once_in;
use super::{mix, side};
use boxwise::plan::ExitSync;
use boxwise::{Communicator, Reshape, Status, Stream};
use fastrand::Rng;
use std::time::Duration;

/// What went wrong on this rank.
#[derive(Debug)]
pub enum Fault {
    /// Wrong bytes or a wrong verdict: the ranks are still in step.
    Wrong(String),
    /// The library refused or failed: the ranks may be out of step.
    Failed(String),
}

impl From<boxwise::Error> for Fault {
    fn from(error: boxwise::Error) -> Fault {
        Fault::Failed(error.to_string())
    }
}

/// A rank that plays cases.
pub struct Player {
    comm: Communicator,
    supply: Supply,
    stream: Stream,
    kinds: Kinds,
    /// Whether some operations go to a stream: not where its thread may not send messages.
    pub streams: bool,
    /// How often data moved directly in shared memory, through rings, by cross-memory attach, in messages, by stores
    /// of kernels, and by NVSHMEM puts.
    pub methods: [u64; 6],
    /// For memory of the GPU.
    #[cfg(feature = "cuda")]
    cuda_stream: Option<gpu::CudaStream>,
}

/// The buffers of one execution.
struct Buffers {
    input: Area,
    input_at: usize,
    /// `None` in place: then `input` holds both.
    output: Option<Area>,
    output_at: usize,
    workspace: Area,
    workspace_pointer: *mut u8,
}

const SUPPLY_BYTES: usize = 6 << 20;
const MARGIN: usize = 70;

impl Player {
    /// Collective.
    pub fn new(comm: Communicator, kinds: Kinds) -> boxwise::Result<Player> {
        let supply = Supply::new(&comm, SUPPLY_BYTES, kinds)?;
        Ok(Player {
            supply,
            stream: Stream::new()?,
            comm,
            streams: true,
            methods: [0; 6],
            #[cfg(feature = "cuda")]
            cuda_stream: (kinds == Kinds::Device).then(|| gpu::driver().stream()),
            kinds,
        })
    }

    /// This rank's number on its communicator.
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// How many ranks play.
    pub fn size(&self) -> usize {
        self.comm.size()
    }

    /// Collective: plays one case.
    pub fn play(&mut self, case: &Case) -> Result<(), Fault> {
        let rank = self.comm.rank();
        let mut random = Rng::with_seed(mix(&[case.seed, rank as u64, 2]));
        if case.fresh_memory {
            let least = if self.is_on_device() { SUPPLY_BYTES / 2 } else { 0 };
            let bytes = random.usize(least..SUPPLY_BYTES);
            self.supply = Supply::new(&self.comm, bytes, self.kinds)?;
        }
        let request = side::request(&case.inputs[rank], &case.outputs[rank], case.element_size);
        let made = Reshape::make(&self.comm, request, &case.options);
        let guilty = case.guilty_ranks();
        // The verdict is the same on all ranks, so they stay in step even when it is wrong.
        let reshape = match made {
            Ok(reshape) if guilty.is_empty() => reshape,
            Ok(_) => return Err(Fault::Wrong(format!("make accepted what ranks {guilty:?} gave"))),
            Err(error) if error.status == Status::Inconsistent && names_one_of(&error.detail, &guilty) => return Ok(()),
            Err(error) => return Err(Fault::Wrong(format!("make, where ranks {guilty:?} are guilty: {error}"))),
        };
        let mut result = Ok(());
        for round in 0..case.rounds {
            match self.round(case, &reshape, &mut random, round) {
                Err(Fault::Wrong(text)) if result.is_ok() => {
                    result = Err(Fault::Wrong(format!("round {round}: {text}")))
                }
                Err(Fault::Failed(text)) => return Err(Fault::Failed(format!("round {round}: {text}"))),
                _ => {}
            }
        }
        result
    }

    fn is_on_device(&self) -> bool {
        !matches!(self.kinds, Kinds::Shared | Kinds::Plain | Kinds::Mixed)
    }

    fn round(&mut self, case: &Case, reshape: &Reshape, random: &mut Rng, round: usize) -> Result<(), Fault> {
        self.supply.reset();
        let options = &case.options;
        let execs = round * case.execs_per_round..(round + 1) * case.execs_per_round;
        let mut wrong = Vec::new();
        let mut all = Vec::new();
        for exec in execs {
            let (buffers, written) = self.prepare(case, reshape, random, exec);
            let info = reshape.info();
            let moved = written * case.element_size as u64;
            if info.bytes_kept + info.bytes_received != moved {
                wrong.push(format!("kept {} and received {} of {moved} bytes", info.bytes_kept, info.bytes_received));
            }
            all.push(buffers);
        }
        // Once an operation is complete here its workspace may serve the next, unless peers may still read it.
        if options.exit_sync >= ExitSync::Input && random.bool() {
            let first = all[0].workspace_pointer;
            all.iter_mut().for_each(|buffers| buffers.workspace_pointer = first);
        }
        if !options.entry_sync {
            self.comm.barrier()?;
        }
        let stream = (once_in(random, 4) && self.streams).then_some(&self.stream);
        #[cfg(feature = "cuda")]
        let default_stream = random.bool();
        for buffers in &all {
            if once_in(random, 12) {
                std::thread::sleep(Duration::from_micros(random.u64(0..300)));
            }
            let rank = self.comm.rank();
            let (input, output) = (&case.inputs[rank], &case.outputs[rank]);
            let input_pointer =
                if input.is_empty() { std::ptr::null_mut() } else { buffers.input.pointer(buffers.input_at) };
            let output_area = buffers.output.as_ref().unwrap_or(&buffers.input);
            let output_pointer =
                if output.is_empty() { std::ptr::null_mut() } else { output_area.pointer(buffers.output_at) };
            let workspace = buffers.workspace_pointer;
            #[cfg(feature = "cuda")]
            if let Some(stream) = &self.cuda_stream {
                let stream = if default_stream { std::ptr::null_mut() } else { stream.stream };
                // SAFETY: as below.
                unsafe { reshape.exec_on_cuda_stream(output_pointer, input_pointer, workspace, stream)? };
                continue;
            }
            // SAFETY: the pointers reach what the sides say, and live until the stream is synchronised below.
            unsafe { reshape.exec(output_pointer, input_pointer, workspace, stream)? };
        }
        if let Some(stream) = stream {
            stream.synchronize()?;
        }
        #[cfg(feature = "cuda")]
        if let (Some(stream), false) = (&self.cuda_stream, default_stream) {
            stream.synchronize();
        }
        // On the host there is nothing left.
        reshape.settle()?;
        for (bit, count) in self.methods.iter_mut().enumerate() {
            *count += u64::from(reshape.methods() >> bit & 1);
        }
        if options.exit_sync < ExitSync::Input {
            // Peers may still read what this rank is about to check and spoil.
            for buffers in &all {
                buffers
                    .output
                    .as_ref()
                    .map_or(Ok(()), |area| area.check("output"))
                    .unwrap_or_else(|text| wrong.push(text));
            }
            self.comm.barrier()?;
        }
        for buffers in &mut all {
            let mut areas = vec![("input", &mut buffers.input), ("workspace", &mut buffers.workspace)];
            areas.extend(buffers.output.as_mut().map(|area| ("output", area)));
            for (what, area) in areas {
                area.check(what).unwrap_or_else(|text| wrong.push(text));
                area.spoil(random);
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(Fault::Wrong(wrong.join("; "))) }
    }

    /// The buffers of one execution, and the number of elements it must write.
    fn prepare(&mut self, case: &Case, reshape: &Reshape, random: &mut Rng, exec: usize) -> (Buffers, u64) {
        let rank = self.comm.rank();
        let size = case.element_size;
        let (input, output) = (&case.inputs[rank], &case.outputs[rank]);
        let image = case.input_image(rank, exec);
        let output_origin = (-output.reach().0) as usize * size;
        let output_span = output.span_bytes(size);
        let input_first = random.usize(0..MARGIN);
        let mut input_bytes = input_first + image.bytes.len() + random.usize(0..MARGIN);
        let (mut in_place_first, input_at) = (0, input_first + image.origin);
        if case.options.in_place {
            in_place_first = match random.usize(0..3) {
                // The same data pointer, where the memory before it allows.
                0 => input_at.saturating_sub(output_origin),
                _ => random.usize(0..=input_bytes),
            };
            input_bytes = input_bytes.max(in_place_first + output_span + random.usize(0..MARGIN));
        }
        let mut input_area = Area::new(&mut self.supply, random, input_bytes);
        input_area.expected[input_first..input_first + image.bytes.len()].copy_from_slice(&image.bytes);
        input_area.write();

        let (output_area, output_at, written) = if case.options.in_place {
            let output_at = in_place_first + output_origin;
            input.for_each(|_, place| input_area.release(byte_at(input_at, place, size), size));
            let written = case.redistribute(rank, exec, &mut input_area.expected, output_at);
            // What this rank's output must hold is promised again, also where its input lay.
            input_area.promise_written(case, rank, output_at);
            (None, output_at, written)
        } else {
            let first = random.usize(0..MARGIN);
            let bytes = first + output_span + random.usize(0..MARGIN);
            let mut area = Area::new(&mut self.supply, random, bytes);
            let written = case.redistribute(rank, exec, &mut area.expected, first + output_origin);
            (Some(area), first + output_origin, written)
        };

        let workspace_bytes = reshape.workspace_bytes();
        let first = random.usize(0..MARGIN);
        let bytes = first + workspace_bytes + random.usize(0..MARGIN);
        let mut workspace = Area::new(&mut self.supply, random, bytes);
        workspace.release(first, workspace_bytes);
        // Not looked at when it needs none.
        let nowhere = std::ptr::without_provenance_mut(random.usize(0..2) * 8);
        let workspace_pointer = if workspace_bytes == 0 { nowhere } else { workspace.pointer(first) };
        let buffers =
            Buffers { input: input_area, input_at, output: output_area, output_at, workspace, workspace_pointer };
        (buffers, written)
    }
}

/// Whether the detail begins with one of these ranks.
fn names_one_of(detail: &str, ranks: &[usize]) -> bool {
    ranks.iter().any(|rank| detail.starts_with(&format!("rank {rank}: ")))
}

impl Area {
    /// The covered elements of `rank`'s output, whose data pointer is at `origin`, must be as expected.
    fn promise_written(&mut self, case: &Case, rank: usize, origin: usize) {
        case.outputs[rank].for_each(|point, place| {
            if case.inputs.iter().any(|side| side.contains(point)) {
                self.promise(byte_at(origin, place, case.element_size), case.element_size);
            }
        });
    }
}
