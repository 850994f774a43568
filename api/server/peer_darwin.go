package server

import (
	"fmt"
	"net"

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
	var cred *unix.Xucred
	var inner error
	if err := raw.Control(func(fd uintptr) {
		cred, inner = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	}); err != nil {
		return peer{}, err
	}
	if inner != nil {
		return peer{}, inner
	}
	return peer{uid: cred.Uid}, nil
}
