package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// socketMode lets everybody on the machine connect: who that is the kernel
// says, and the backend decides what she may.
const socketMode = 0o666

// listener is one way in.
type listener struct {
	net.Listener
	tcp bool
}

// listen opens every way in.
func (s *Server) listen() error {
	if s.Socket != "" {
		l, err := listenSocket(s.Socket)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, listener{Listener: &limited{Listener: l, limits: s.conns, who: s.localCaller}})
	}
	if s.TCP == nil {
		return nil
	}
	tokens, err := s.TCP.hashes()
	if err != nil {
		return err
	}
	s.tokens = tokens
	return s.listenTCP()
}

func (s *Server) listenTCP() error {
	addr, err := net.ResolveTCPAddr("tcp", s.TCP.Addr)
	if err != nil {
		return fmt.Errorf("%q is not an address to listen on: %w", s.TCP.Addr, err)
	}
	var secure *tls.Config
	if s.TCP.Cert == "" && s.TCP.Key == "" {
		if !addr.IP.IsLoopback() {
			return fmt.Errorf("TCP on %s is refused without TLS: tokens would cross the network in the clear; name a certificate and a key, or listen on 127.0.0.1", s.TCP.Addr)
		}
	} else if secure, err = s.TCP.loadTLS(); err != nil {
		return err
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return err
	}
	var in net.Listener = &limited{Listener: l, limits: s.conns, silent: secure != nil}
	if secure != nil {
		in = tls.NewListener(in, secure)
	}
	s.listeners = append(s.listeners, listener{Listener: in, tcp: true})
	return nil
}

// listenSocket listens on a Unix socket. One that a dead process left is
// replaced; one that somebody answers on, and anything else, is left alone.
func listenSocket(path string) (net.Listener, error) {
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(path); err == nil {
			l, err = net.Listen("unix", path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the socket %s cannot be made: %w", path, err)
	}
	if err := os.Chmod(path, socketMode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("something else of that name is there")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		c.Close()
		return errors.New("another norn answers on it")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("another norn may be there: %w", err)
	}
	return os.Remove(path)
}
