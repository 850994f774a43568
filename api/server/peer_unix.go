//go:build unix

package server

import (
	"fmt"
	"net"
)

// onSocket asks something of the kernel about a Unix socket.
func onSocket(c net.Conn, ask func(fd int) error) error {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%T is no Unix socket", c)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = ask(int(fd)) }); err != nil {
		return err
	}
	return inner
}
