package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf is who is at the other end of a Unix socket, as the kernel knows him since he
// connected.
func peerOf(c net.Conn) (peer, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return peer{}, fmt.Errorf("%T is no Unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return peer{}, err
	}
	var out peer
	var inner error
	if err := raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); inner != nil {
			return
		}
		out.uid, out.gid = cred.Uid, cred.Gid
		out.groups, out.grouped = peerGroups(fd)
	}); err != nil {
		return peer{}, err
	}
	return out, inner
}

// maxGroups is how many supplementary groups a process of Linux can have.
const maxGroups = 1 << 16

// peerGroups are the supplementary groups of who connected; ok is false where the kernel
// does not tell (before Linux 4.13).
func peerGroups(fd uintptr) (groups []uint32, ok bool) {
	for size := 64; size <= maxGroups; size *= 4 {
		b := make([]byte, 4*size)
		n := uint32(len(b))
		_, _, no := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_PEERGROUPS, uintptr(unsafe.Pointer(&b[0])), uintptr(unsafe.Pointer(&n)), 0)
		switch {
		case errors.Is(no, unix.ERANGE):
			continue
		case no != 0:
			return nil, false
		}
		for at := uint32(0); at+4 <= n; at += 4 {
			groups = append(groups, binary.NativeEndian.Uint32(b[at:]))
		}
		return groups, true
	}
	return nil, false
}
