package server

import (
	"encoding/binary"
	"errors"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peerOf is who is at the other end of a Unix socket, as the kernel knows him since he
// connected.
func peerOf(c net.Conn) (peer, error) {
	var out peer
	err := onSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			out.uid, out.gid = cred.Uid, cred.Gid
			out.groups, out.grouped = peerGroups(uintptr(fd))
		}
		return err
	})
	return out, err
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
