package server

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerOf is who is at the other end of a Unix socket, as the kernel knows him since he
// connected.
func peerOf(c net.Conn) (peer, error) {
	var out peer
	err := onSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			out.uid = cred.Uid
		}
		return err
	})
	return out, err
}
