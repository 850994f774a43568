package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/norn-scheduler/norn/api/client"
)

// norn is norn kube up as a process, with the options that users have.
type norn struct {
	*client.Client
	cmd    *exec.Cmd
	socket string
	said   bytes.Buffer
	began  time.Time
}

// startNorn starts a Norn and returns when it answers that it leads.
func (b *bench) startNorn(ctx context.Context, c *cluster, args ...string) (*norn, error) {
	n, err := b.launchNorn(c, args...)
	if err != nil {
		return nil, err
	}
	return n, n.ready(ctx)
}

// launchNorn starts a Norn and returns at once.
func (b *bench) launchNorn(c *cluster, args ...string) (*norn, error) {
	state := filepath.Join(c.dir, "norn")
	n := &norn{socket: filepath.Join(state, "norn.sock"), began: time.Now()}
	var err error
	if n.Client, err = client.New(n.socket, "", ""); err != nil {
		return nil, err
	}
	n.cmd = exec.Command(b.bin("norn-kube"), append([]string{"up", "--kubeconfig", c.env.Kubeconfig(), "--state", state}, args...)...)
	n.cmd.Stderr = &n.said
	return n, n.cmd.Start()
}

// ready waits until a Norn answers.
func (n *norn) ready(ctx context.Context) error {
	err := until(ctx, "norn answers", 5*time.Minute, func() (bool, error) {
		_, err := n.Status(ctx)
		if err != nil && readStat(n.cmd.Process.Pid).state == 'Z' {
			return false, errors.New("norn has ended")
		}
		return err == nil, nil
	})
	if err != nil {
		err = errors.Join(err, n.stop())
		return fmt.Errorf("%w\n%s", err, n.said.String())
	}
	return nil
}

// stop ends a Norn.
func (n *norn) stop() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return n.cmd.Wait()
}

// used is the CPU time and the memory of a Norn at present.
func (n *norn) used() stat { return readStat(n.cmd.Process.Pid) }

// metrics are the numbers that a Norn tells Prometheus, those without labels.
func (n *norn) metrics() (map[string]float64, error) {
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", n.socket) }
	resp, err := (&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}).Get("http://norn/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			out[name] = v
		}
	}
	return out, lines.Err()
}

// stat is what the system says of a process.
type stat struct {
	state byte
	cpu   time.Duration // user and system
	rss   int64         // bytes
}

// readStat reads it; of a process that is not there it is empty.
func readStat(pid int) (s stat) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s
	}
	f := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(f) < 22 {
		return s
	}
	const ticks = 100 // in a second, as the kernel tells users everywhere
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i], 10, 64) // the kernel writes numbers
		return n
	}
	return stat{state: f[0][0], cpu: time.Duration(number(11)+number(12)) * (time.Second / ticks), rss: number(21) * int64(os.Getpagesize())}
}
