package testenv

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are drawn below those that Linux gives to outgoing connections (from 32768): so a
// client that tries again while a server restarts cannot take the server's port.
const (
	firstPort = 18000
	ports     = 14000
)

// freePorts finds ports of the loopback interface on which nobody listens.
func freePorts(n int) ([]int, error) {
	var free []int
	for range 1000 {
		if len(free) == n {
			return free, nil
		}
		port := firstPort + rand.IntN(ports)
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // only now: no port is found twice
		free = append(free, port)
	}
	return nil, errors.New("no free ports on the loopback interface")
}
