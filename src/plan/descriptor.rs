//! What one rank tells all others: its boxes and layouts, or what is wrong with them, in a fixed number of bytes.

use super::options::{OptionValues, Options};
use crate::error::{Error, Result, Status, read_fault, write_fault};
use crate::geometry::{IndexBox, MAX_DIMS, Placement};
use bytemuck::{Pod, Zeroable};

/// What one rank asks for: the box it holds and the box it wants, each with its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What this rank holds before the operation.
    pub input: Placement,
    /// What it holds after it.
    pub output: Placement,
}

/// One side of a request as plain numbers, one per dimension.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The first index of the box in each dimension.
    pub lower: &'a [i64],
    /// One past the last index.
    pub upper: &'a [i64],
    /// Steps in memory, in elements; `None` is packed, the last dimension fastest.
    pub strides: Option<&'a [i64]>,
}

impl Side<'_> {
    /// The placement that `place` makes of it; a fault names the side.
    fn placed(
        &self,
        name: &str,
        place: impl FnOnce(IndexBox, Option<&[i64]>) -> std::result::Result<Placement, String>,
    ) -> Result<Placement> {
        IndexBox::new(self.lower, self.upper)
            .and_then(|index_box| place(index_box, self.strides))
            .map_err(|fault| Error::invalid_argument(fault).context(name))
    }
}

impl Request {
    /// A request from plain numbers: elements of so many bytes, the box that this rank holds and the one it wants.
    ///
    /// Pass the result on to `Reshape::make` as it is, also when it is a fault: then all ranks are told.
    pub fn describe(element_size: usize, input: Side, output: Side) -> Result<Request> {
        let input = input.placed("input", |b, strides| Placement::input(b, strides, element_size))?;
        let output = output.placed("output", |b, strides| Placement::output(b, strides, element_size))?;
        Request::new(input, output)
    }

    /// A request, if input and output have the same number of dimensions and the same element size.
    pub fn new(input: Placement, output: Placement) -> Result<Request> {
        let (ndims_in, ndims_out) = (input.index_box().ndims(), output.index_box().ndims());
        if ndims_in != ndims_out {
            return Err(Error::invalid_argument(format!(
                "the input box has {ndims_in} dimensions but the output box has {ndims_out}; they must be equal"
            )));
        }
        let (size_in, size_out) = (input.element_size(), output.element_size());
        if size_in != size_out {
            return Err(Error::invalid_argument(format!(
                "input elements have {size_in} bytes but output elements have {size_out}; they must be equal"
            )));
        }
        Ok(Request { input, output })
    }
}

/// What one rank tells all others before anything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// The rank that speaks.
    pub rank: usize,
    /// Its node: ranks with the same number share memory.
    pub node: u64,
    /// What it asks for, or the fault in its own arguments.
    pub description: Result<Request>,
    /// Its options.
    pub options: Options,
}

/// Bytes of an encoded [`Descriptor`].
pub const DESCRIPTOR_BYTES: usize = size_of::<Wire>();

const _: () = assert!(DESCRIPTOR_BYTES <= 1024);

/// Read backwards on a machine of the other byte order, so that such a peer is told, too.
const MAGIC: u64 = u64::from_be_bytes(*b"boxwise\x01");

/// Changes with every change of [`Wire`] and of the meaning of an option's value.
const VERSION: u32 = 1;

const PAYLOAD_WORDS: usize = 64;

const _: () = assert!(6 * MAX_DIMS <= PAYLOAD_WORDS);

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Wire {
    magic: u64,
    version: u32,
    /// 0: the payload is a fault.
    ndims: u32,
    rank: u64,
    node: u64,
    element_size: u64,
    options: OptionValues,
    /// Lower, upper and strides of the input, then of the output, `MAX_DIMS` words each; or a fault.
    payload: [i64; PAYLOAD_WORDS],
}

impl Descriptor {
    /// The form in which it travels. A description or option that no rank could accept travels as a fault;
    /// the detail of a fault is cut where it does not fit (at least 480 bytes do).
    pub fn encode(&self) -> [u8; DESCRIPTOR_BYTES] {
        let mut wire = Wire {
            magic: MAGIC,
            version: VERSION,
            ndims: 0,
            rank: self.rank as u64,
            node: self.node,
            element_size: 0,
            options: if self.options.check().is_ok() { self.options } else { Options::default() }.values(),
            payload: [0; PAYLOAD_WORDS],
        };
        if let Err(fault) = self.write_request(&mut wire) {
            write_fault(&fault, bytemuck::bytes_of_mut(&mut wire.payload));
        }
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes.copy_from_slice(bytemuck::bytes_of(&wire));
        bytes
    }

    fn write_request(&self, wire: &mut Wire) -> Result<()> {
        let request = self.description.clone()?;
        // The fields are public: whatever they hold must not reach the other ranks unchecked.
        let Request { input, output } = Request::new(request.input, request.output)?;
        self.options.check().map_err(Error::invalid_argument)?;
        wire.ndims = input.index_box().ndims() as u32;
        wire.element_size = input.element_size() as u64;
        for (words, placement) in wire.payload.chunks_exact_mut(3 * MAX_DIMS).zip([input, output]) {
            let (index_box, strides) = (placement.index_box(), placement.layout().strides());
            for (at, values) in [index_box.lower(), index_box.upper(), strides].into_iter().enumerate() {
                words[at * MAX_DIMS..][..values.len()].copy_from_slice(values);
            }
        }
        Ok(())
    }

    /// Reads what a rank sent. Everything is checked again; bytes that no rank of this version can have sent
    /// are `Inconsistent`.
    pub fn decode(bytes: &[u8]) -> Result<Descriptor> {
        let foreign = |what: String| {
            let advice = "all ranks must load the same version of boxwise";
            Error::new(Status::Inconsistent, format!("a rank sent a description that {what}; {advice}"))
        };
        let wire: Wire = bytemuck::try_pod_read_unaligned(bytes)
            .map_err(|_| foreign(format!("has {} bytes, not {DESCRIPTOR_BYTES}", bytes.len())))?;
        if wire.magic != MAGIC {
            return Err(foreign(format!("starts with {:#018x}, not {MAGIC:#018x}", wire.magic)));
        }
        if wire.version != VERSION {
            return Err(foreign(format!("has version {}, not {VERSION}", wire.version)));
        }
        let garbled =
            |what: String| foreign(format!("cannot be read ({what})")).context(format_args!("rank {}", wire.rank));
        let rank = usize::try_from(wire.rank).map_err(|_| garbled("rank".into()))?;
        let options = Options::from_values(&wire.options).map_err(garbled)?;
        let description = match wire.ndims {
            0 => match read_fault(bytemuck::bytes_of(&wire.payload)) {
                Some(fault) => Err(fault),
                None => return Err(garbled("ndims is 0".into())),
            },
            _ => Ok(read_request(&wire).map_err(garbled)?),
        };
        Ok(Descriptor { rank, node: wire.node, description, options })
    }

    /// The request of a rank in a table that `check_table` found sound.
    pub(super) fn request(&self) -> &Request {
        self.description.as_ref().expect("check_table found every description sound")
    }
}

fn read_request(wire: &Wire) -> std::result::Result<Request, String> {
    let ndims = wire.ndims as usize;
    if ndims > MAX_DIMS {
        return Err(format!("ndims is {ndims}"));
    }
    let element_size = usize::try_from(wire.element_size).map_err(|e| e.to_string())?;
    let word = |at: usize| &wire.payload[at * MAX_DIMS..][..ndims];
    Ok(Request {
        input: Placement::input(IndexBox::new(word(0), word(1))?, Some(word(2)), element_size)?,
        output: Placement::output(IndexBox::new(word(3), word(4))?, Some(word(5)), element_size)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::options::{Backend, ExitSync};
    use super::*;

    fn placement(lower: &[i64], upper: &[i64], strides: Option<&[i64]>, size: usize) -> Placement {
        Placement::output(IndexBox::new(lower, upper).unwrap(), strides, size).unwrap()
    }

    fn sample() -> Descriptor {
        let input = Placement::input(IndexBox::new(&[-4, 1 << 40], &[-1, (1 << 40) + 5]).unwrap(), Some(&[0, -7]), 12);
        let output = placement(&[0, 3], &[2, 9], None, 12);
        Descriptor {
            rank: 70_000,
            node: u64::MAX,
            description: Request::new(input.unwrap(), output),
            options: Options {
                backend: Backend::Nvshmem,
                in_place: true,
                exit_sync: ExitSync::Everyone,
                threads: 7,
                timeout_ms: i64::MAX as u64,
                ..Options::default()
            },
        }
    }

    #[test]
    fn what_is_sent_arrives() {
        let sent = sample();
        assert_eq!(Descriptor::decode(&sent.encode()), Ok(sent));
        for ndims in 1..=MAX_DIMS {
            let extents: Vec<i64> = (1..=ndims as i64).collect();
            let whole = placement(&vec![0; ndims], &extents, None, 65536);
            let sent = Descriptor { description: Request::new(whole, whole), ..sample() };
            assert_eq!(Descriptor::decode(&sent.encode()), Ok(sent));
        }
    }

    #[test]
    fn input_and_output_must_be_alike() {
        let (flat, square) = (placement(&[0], &[4], None, 8), placement(&[0, 0], &[2, 2], None, 8));
        let fault = Request::new(flat, square).unwrap_err();
        assert_eq!(fault.status, Status::InvalidArgument);
        assert!(fault.detail.contains("1 dimensions") && fault.detail.contains("has 2"));
        let fault = Request::new(flat, placement(&[0], &[4], None, 4)).unwrap_err();
        assert_eq!(fault.status, Status::InvalidArgument);
        assert!(fault.detail.contains("8 bytes") && fault.detail.contains("have 4"));
    }

    #[test]
    fn faults_travel_and_long_ones_are_cut() {
        let fault = Error::new(Status::NotSupported, "upper[0] = 3 is below lower[0] = 4");
        let sent = Descriptor { description: Err(fault.clone()), ..sample() };
        assert_eq!(Descriptor::decode(&sent.encode()).unwrap().description, Err(fault));

        let long = Error::invalid_argument("ü".repeat(700));
        let sent = Descriptor { description: Err(long), ..sample() };
        let detail = Descriptor::decode(&sent.encode()).unwrap().description.unwrap_err().detail;
        assert!(detail.len() >= 480 && detail.trim_end_matches('.').chars().all(|c| c == 'ü'));
    }

    #[test]
    fn unsound_public_fields_travel_as_a_fault() {
        let fault_of = |sent: &Descriptor| Descriptor::decode(&sent.encode()).unwrap().description.unwrap_err();
        for (options, text) in [
            (Options { threads: 0, ..Options::default() }, "BOXWISE_OPTION_THREADS is 0"),
            (Options { timeout_ms: u64::MAX, ..Options::default() }, "BOXWISE_OPTION_TIMEOUT_MS"),
        ] {
            let fault = fault_of(&Descriptor { options, ..sample() });
            assert_eq!(fault.status, Status::InvalidArgument);
            assert!(fault.detail.contains(text), "{fault}");
        }
        let request = Request { input: placement(&[0], &[4], None, 8), output: placement(&[0], &[4], None, 4) };
        let fault = fault_of(&Descriptor { description: Ok(request), ..sample() });
        assert_eq!(fault.status, Status::InvalidArgument);
    }

    #[test]
    fn foreign_and_older_peers_are_told() {
        let good = sample().encode();
        let told = |bytes: &[u8], text: &str| {
            let fault = Descriptor::decode(bytes).unwrap_err();
            assert_eq!(fault.status, Status::Inconsistent);
            assert!(fault.detail.contains(text) && fault.detail.contains("same version"), "{fault}");
        };
        told(&good[1..], "bytes");
        told(&[], "has 0 bytes");
        let mut foreign = good;
        foreign[..8].reverse();
        told(&foreign, "starts with");
        let mut newer = good;
        newer[8..12].copy_from_slice(&9u32.to_ne_bytes());
        told(&newer, "version 9");
        let mut unreadable = good;
        unreadable[12..16].copy_from_slice(&9u32.to_ne_bytes());
        told(&unreadable, "rank 70000: ");
        // Both strides of the output 0: allowed of an input only.
        let mut stacked = good;
        stacked[DESCRIPTOR_BYTES - 8 * PAYLOAD_WORDS..][8 * 5 * MAX_DIMS..][..16].fill(0);
        told(&stacked, "at one place");
    }

    #[test]
    fn garbage_never_panics_and_what_is_accepted_is_sound() {
        let mut random = fastrand::Rng::with_seed(2);
        let (mut accepted, mut refused) = (0, 0);
        for _ in 0..20_000 {
            let mut bytes = sample().encode();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(12..DESCRIPTOR_BYTES);
                bytes[at] = random.u8(..);
            }
            match Descriptor::decode(&bytes) {
                Ok(descriptor) => {
                    accepted += 1;
                    assert_eq!(Descriptor::decode(&descriptor.encode()), Ok(descriptor));
                }
                Err(fault) => {
                    refused += 1;
                    assert_eq!(fault.status, Status::Inconsistent);
                }
            }
        }
        assert!(accepted > 100 && refused > 100, "{accepted} accepted, {refused} refused");
    }
}
