//! Packet sockets between processes of one user, which can carry a file descriptor with a packet.
//!
//! Their names are abstract: nothing in the file system stays behind, and the name goes with the socket.

use crate::error::{Error, Result, Status};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Longest packet.
pub const PACKET_BYTES: usize = 1024;

/// One end of a connection.
#[derive(Debug)]
pub struct Socket(OwnedFd);

/// A packet as received.
pub struct Packet {
    /// Its bytes; none means that the other end is gone.
    pub bytes: Vec<u8>,
    /// The descriptor that came with it.
    pub fd: Option<OwnedFd>,
    /// A descriptor came that this process had no room for.
    pub lost_fd: bool,
}

fn last(what: &str) -> Error {
    Error::os(what, &io::Error::last_os_error())
}

fn new_socket() -> Result<OwnedFd> {
    // SAFETY: plain system call; the descriptor that comes back is ours alone.
    unsafe {
        match libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0) {
            -1 => Err(last("cannot create a local socket")),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// The abstract address of a name, cut to what an address holds.
fn address(name: &str) -> (libc::sockaddr_un, libc::socklen_t) {
    // SAFETY: all-zero bytes are a valid sockaddr_un.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = name.as_bytes();
    let length = bytes.len().min(address.sun_path.len() - 1);
    for (to, from) in address.sun_path[1..].iter_mut().zip(&bytes[..length]) {
        *to = *from as libc::c_char;
    }
    (address, (std::mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + length) as libc::socklen_t)
}

/// This process's user.
pub fn own_user() -> u32 {
    // SAFETY: always succeeds, touches nothing.
    unsafe { libc::geteuid() }
}

/// A socket that waits for connections to a name.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Takes the name; `Ok(None)` when another process has it.
    pub fn bind(name: &str) -> Result<Option<Listener>> {
        let fd = new_socket()?;
        let (address, length) = address(name);
        // SAFETY: the address is valid for the length given, the descriptor is ours.
        unsafe {
            if libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) != 0 {
                return match io::Error::last_os_error() {
                    error if error.raw_os_error() == Some(libc::EADDRINUSE) => Ok(None),
                    error => Err(Error::os("cannot name a local socket", &error)),
                };
            }
            if libc::listen(fd.as_raw_fd(), 4096) != 0 {
                return Err(last("cannot listen on a local socket"));
            }
        }
        Ok(Some(Listener(fd)))
    }

    /// The next connection of a process of the same user, if one comes within `most`; others are turned away.
    pub fn accept(&self, most: Duration) -> Result<Option<Socket>> {
        if !is_ready(self.0.as_raw_fd(), libc::POLLIN, most) {
            return Ok(None);
        }
        // SAFETY: plain system call; the descriptor that comes back is ours alone.
        let socket = unsafe {
            match libc::accept4(self.0.as_raw_fd(), std::ptr::null_mut(), std::ptr::null_mut(), libc::SOCK_CLOEXEC) {
                -1 => return Ok(None), // the other end gave up already
                fd => Socket(OwnedFd::from_raw_fd(fd)),
            }
        };
        let user = socket.peer_user()?;
        if user != own_user() {
            log::warn!("turned away a process of user {user} that tried to join");
            return Ok(None);
        }
        Ok(Some(socket))
    }
}

/// Whether one of these events comes within `most`; an interrupted wait counts as none.
pub fn is_ready(fd: RawFd, events: libc::c_short, most: Duration) -> bool {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&mut entry, 1, most.as_millis().min(i32::MAX as u128) as i32) > 0 }
}

impl Socket {
    /// Connects to a name; `Ok(None)` when nobody listens there yet.
    pub fn connect(name: &str) -> Result<Option<Socket>> {
        let fd = new_socket()?;
        let (address, length) = address(name);
        // SAFETY: the address is valid for the length given, the descriptor is ours.
        if unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), length) } != 0 {
            return match io::Error::last_os_error() {
                error if matches!(error.raw_os_error(), Some(libc::ECONNREFUSED | libc::EAGAIN | libc::EINTR)) => {
                    Ok(None)
                }
                error => Err(Error::os("cannot connect to a local socket", &error)),
            };
        }
        let socket = Socket(fd);
        let user = socket.peer_user()?;
        if user != own_user() {
            return Err(Error::new(
                Status::Transport,
                format!("the job's socket name is held by user {user}, this process runs as user {}", own_user()),
            ));
        }
        Ok(Some(socket))
    }

    /// Two ends of a new connection.
    pub fn pair() -> Result<(Socket, Socket)> {
        let mut fds = [0; 2];
        // SAFETY: the array has room for the two descriptors, which are then ours alone.
        unsafe {
            if libc::socketpair(libc::AF_UNIX, libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr()) != 0 {
                return Err(last("cannot create a local socket"));
            }
            Ok((Socket(OwnedFd::from_raw_fd(fds[0])), Socket(OwnedFd::from_raw_fd(fds[1]))))
        }
    }

    /// Whether the other end is closed.
    pub fn has_hung_up(&self) -> bool {
        is_ready(self.0.as_raw_fd(), libc::POLLRDHUP, Duration::ZERO)
    }

    fn peer_user(&self) -> Result<u32> {
        let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the buffer is as long as said.
        let failed = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut credentials).cast(),
                &mut length,
            )
        };
        if failed != 0 { Err(last("cannot tell who is at the other end")) } else { Ok(credentials.uid) }
    }

    /// Sends a packet, with a descriptor if given; `false` when the other end is gone.
    pub fn send(&self, bytes: &[u8], fd: Option<&OwnedFd>) -> Result<bool> {
        let mut part = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
        let mut control = Control::new();
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        if let Some(fd) = fd {
            message.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: the control buffer is aligned and has room for one descriptor.
            unsafe {
                message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
                let header = libc::CMSG_FIRSTHDR(&message);
                (*header).cmsg_level = libc::SOL_SOCKET;
                (*header).cmsg_type = libc::SCM_RIGHTS;
                (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
                libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
            }
        }
        loop {
            // SAFETY: the message points to buffers that outlive the call.
            if unsafe { libc::sendmsg(self.0.as_raw_fd(), &message, libc::MSG_NOSIGNAL) } >= 0 {
                return Ok(true);
            }
            match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => continue,
                error if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ECONNRESET)) => return Ok(false),
                error => return Err(Error::os("cannot send to a peer", &error)),
            }
        }
    }

    /// The next packet, if one comes within `most`.
    pub fn receive(&self, most: Duration) -> Result<Option<Packet>> {
        if !is_ready(self.0.as_raw_fd(), libc::POLLIN, most) {
            return Ok(None);
        }
        let mut bytes = vec![0u8; PACKET_BYTES];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut control = Control::new();
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = size_of::<Control>() as _;
        // SAFETY: the message points to buffers that outlive the call; a descriptor that comes is ours alone.
        let (length, fd) = unsafe {
            let length = libc::recvmsg(self.0.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC);
            let header = if length > 0 { libc::CMSG_FIRSTHDR(&message) } else { std::ptr::null_mut() };
            let fd = (!header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS)
                .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()));
            (length, fd)
        };
        if length < 0 {
            return match io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINTR) => Ok(None),
                error if error.raw_os_error() == Some(libc::ECONNRESET) => {
                    Ok(Some(Packet { bytes: vec![], fd: None, lost_fd: false }))
                }
                error => Err(Error::os("cannot receive from a peer", &error)),
            };
        }
        bytes.truncate(length as usize);
        Ok(Some(Packet { bytes, fd, lost_fd: message.msg_flags & libc::MSG_CTRUNC != 0 }))
    }
}

/// Room for the descriptor of a packet, aligned as its header must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

impl Control {
    fn new() -> Control {
        Control([0; 64])
    }
}
