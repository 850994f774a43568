//go:build linux

package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// play goes on for a span: clients and chaos at once; then the queue runs empty, what
// happened is checked, and bits are flipped.
func (s *stage) play(span time.Duration, flips int) error {
	if err := s.start(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for _, act := range s.clients() {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					act()
				}
			}
		})
	}
	var err error
	for until := time.Now().Add(span); time.Now().Before(until) && err == nil; {
		err = s.harm()
	}
	close(stop)
	all.Wait()
	if err == nil {
		err = s.drain()
	}
	if err == nil {
		s.check()
		err = s.flip(flips)
	}
	return err
}

// harm does one thing to the Norn, and makes sure that it is there again.
func (s *stage) harm() error {
	time.Sleep(time.Duration(300+s.draw(2200)) * time.Millisecond)
	if err, gone := s.gone(0); gone {
		s.breach("the daemon has ended by itself: %v", err)
		return s.restart()
	}
	switch s.draw(6) {
	case 0, 1:
		s.kill()
	case 2:
		s.killRunner()
		return nil
	case 3:
		s.killRunner()
		s.kill()
	case 4: // while it starts, several times
		s.kill()
		for range 1 + s.draw(4) {
			if err := s.start(); err != nil {
				return err
			}
			time.Sleep(time.Duration(s.draw(80)) * time.Millisecond)
			s.kill()
		}
	case 5:
		return s.fill()
	}
	return s.restart()
}

// restart starts the daemon, and sees whether all jobs are there.
func (s *stage) restart() error {
	known := s.numbers()
	if err := s.start(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	s.present(known)
	return nil
}

// present sees whether jobs are there under their names.
func (s *stage) present(known []string) {
	rows, err := s.list()
	if err != nil {
		s.breach("%v", err)
		return
	}
	for _, id := range known {
		s.mu.Lock()
		name := s.jobs[id].name
		s.mu.Unlock()
		if rows[id].Name != name {
			s.breach("job %s (%s) is lost: there is %+v", id, name, rows[id])
		}
	}
}

// killRunner kills what watches over a job.
func (s *stage) killRunner() {
	if all := s.runners(); len(all) > 0 {
		syscall.Kill(all[s.draw(len(all))], syscall.SIGKILL)
		s.count("runners killed")
	}
}

// fill leaves no room on the disk for a while. The daemon may end then.
func (s *stage) fill() error {
	if !s.mounted {
		return nil
	}
	path := filepath.Join(s.state, "..full")
	f, err := os.Create(path)
	if err != nil {
		return nil // it is full
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	f.Close()
	s.count("disks filled")
	time.Sleep(time.Duration(200+s.draw(1500)) * time.Millisecond)
	os.Remove(path)
	if _, gone := s.gone(time.Second); gone {
		s.count("daemons ended by a full disk")
		return s.restart()
	}
	return nil
}

// stalled is for how long no job may end while there are any; the longest take some
// seconds.
const stalled = time.Minute

// drain releases all jobs, again and again, until all have ended.
func (s *stage) drain() error {
	if err, gone := s.gone(0); gone {
		s.breach("the daemon has ended by itself: %v", err)
		if err := s.restart(); err != nil {
			return err
		}
	}
	least, last := math.MaxInt, time.Now()
	for {
		rows, err := s.list()
		if err != nil {
			return err
		}
		left := 0
		for id, r := range rows {
			switch r.State {
			case "done", "failed", "cancelled":
				continue
			case "held":
				s.mu.Lock()
				if j := s.jobs[id]; j != nil && j.released.IsZero() {
					j.released = time.Now()
				}
				s.mu.Unlock()
				s.ask("POST", "/v1/jobs/"+id+"/release", "")
			}
			left++
		}
		if left == 0 {
			return nil
		}
		if left < least {
			least, last = left, time.Now()
		}
		if time.Since(last) > stalled {
			_, why, _ := s.ask("GET", "/v1/status", "")
			s.breach("of %d jobs that are left none has ended for %v: %s", left, stalled, why)
			return nil
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// flip flips bits in files of the state folder, one at a time, while no daemon runs.
func (s *stage) flip(n int) error {
	for range n {
		before, err := s.list()
		if err != nil {
			return err
		}
		s.kill()
		path, err := flipBit(s.state, s.draw)
		if err != nil {
			return err
		}
		s.count("bits flipped")
		found, sound := s.command("fsck", "--state", s.state, "--json")
		if err := s.start(); err != nil {
			return err
		}
		if err := s.ready(); err != nil {
			return fmt.Errorf("after a bit was flipped in %s: %w", path, err)
		}
		after, err := s.list()
		if err != nil {
			return err
		}
		for id, r := range before {
			if after[id] != r && sound {
				s.breach("after a bit was flipped in %s job %s is %+v, and was %+v; norn fsck found nothing (%s)", path, id, after[id], r, found)
			}
		}
		for id := range after {
			if _, known := before[id]; !known {
				s.breach("after a bit was flipped in %s there is a job %s", path, id)
			}
		}
		if !sound {
			s.count("bits found out")
		}
	}
	return nil
}

// flipBit flips a bit of a file below a folder, and returns which. It leaves
// outputs of jobs, locks and sockets alone.
func flipBit(dir string, draw func(int) int) (string, error) {
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 && d.Name() != "lock" && !strings.HasPrefix(d.Name(), "output.log") && !strings.Contains(path, "/aside/") {
			all = append(all, path)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		return "", fmt.Errorf("no file to flip a bit in: %w", err)
	}
	path := all[draw(len(all))]
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	b[draw(len(b))] ^= 1 << draw(8)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = f.WriteAt(b, 0)
	return path, err
}
