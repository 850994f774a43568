//go:build linux

package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// clients are what users do, each over and over until stop is closed.
func (s *stage) clients() []func() {
	return []func(){s.submit, s.submit, s.cancel, s.release, s.asking, s.asking, s.hostile}
}

// submit submits a job.
func (s *stage) submit() {
	s.mu.Lock()
	waiting := len(s.jobs)
	s.names++
	j := &told{
		name: fmt.Sprint("j", s.names), steps: 4 + s.rng.IntN(40), stop: []string{"checkpoint", "checkpoint", "restart", "freeze", "never"}[s.rng.IntN(5)], held: s.rng.IntN(8) == 0,
	}
	gpus := 1 + s.rng.IntN(8)/5
	s.mu.Unlock()
	args := []string{"submit", "--name", j.name, "--gpus", fmt.Sprint(gpus), "--est", fmt.Sprintf("%dms", 50*j.steps), "--stop", j.stop, "--retries", "-1", "--backoff", "100ms"}
	if j.held {
		args = append(args, "--hold")
	}
	args = append(args, "--", s.script, j.name, fmt.Sprint(j.steps), j.stop)
	id, ok := s.command(args...)
	if ok {
		s.mu.Lock()
		other := s.jobs[id]
		if other == nil {
			s.jobs[id] = j
		}
		s.counts["jobs submitted"]++
		s.mu.Unlock()
		if other != nil {
			s.breach("number %s is given twice, to %s and %s", id, other.name, j.name)
		}
	} else {
		s.count("submissions without an answer")
	}
	time.Sleep(time.Duration(100+s.draw(300+waiting)) * time.Millisecond)
}

// any is a job that a client was told of; nil: there is none.
func (s *stage) any() (string, *told) {
	ids := s.numbers()
	if len(ids) == 0 {
		return "", nil
	}
	id := ids[s.draw(len(ids))]
	s.mu.Lock()
	defer s.mu.Unlock()
	return id, s.jobs[id]
}

// cancel cancels a job.
func (s *stage) cancel() {
	time.Sleep(time.Duration(300+s.draw(1500)) * time.Millisecond)
	id, j := s.any()
	if j == nil {
		return
	}
	if code, _, err := s.ask("POST", "/v1/jobs/"+id+"/cancel", ""); err == nil && code == 204 {
		s.mu.Lock()
		if j.cancelled.IsZero() {
			j.cancelled = time.Now()
		}
		s.counts["cancellations answered"]++
		s.mu.Unlock()
	}
}

// release releases a job, which counts as released from the moment on at which that is asked.
func (s *stage) release() {
	time.Sleep(time.Duration(100+s.draw(400)) * time.Millisecond)
	id, j := s.any()
	if j == nil || !j.held {
		return
	}
	s.mu.Lock()
	if j.released.IsZero() {
		j.released = time.Now()
	}
	s.mu.Unlock()
	s.ask("POST", "/v1/jobs/"+id+"/release", "")
}

// asking asks what users ask.
func (s *stage) asking() {
	id, _ := s.any()
	paths := []string{"/v1/jobs", "/v1/jobs?all=true", "/v1/status", "/v1/node", "/metrics", "/v1/jobs/" + id, "/v1/jobs/" + id + "/why", "/v1/jobs/" + id + "/logs?tail=5", "/v1/fsck"}
	s.ask("GET", paths[s.draw(len(paths))], "")
	time.Sleep(time.Duration(s.draw(60)) * time.Millisecond)
}

// hostile sends what nobody should.
func (s *stage) hostile() {
	time.Sleep(time.Duration(s.draw(300)) * time.Millisecond)
	switch s.draw(7) {
	case 0:
		s.ask("POST", "/v1/jobs", `{"command":["true"],"gpus":1e300,"env":`+strings.Repeat(`{"a":`, 500))
	case 1:
		s.ask("POST", "/v1/jobs", `{"command":["`+strings.Repeat("x", 6<<20)+`"]}`)
	case 2:
		s.ask("GET", "/v1/jobs/../../../../etc/passwd/%2e%2e/logs?run=99999999999999999999", "")
	case 3:
		s.ask("PUT", "/v1/policy", `{"policy":"fifo(mode=no`+strings.Repeat("(", 5000))
	case 4:
		s.ask("POST", "/v1/task/report", `{"rank":-1,"loss":1e999}`)
	case 5: // says half a request, and then nothing
		for range 40 {
			if c, err := net.Dial("unix", s.socket); err == nil {
				fmt.Fprintf(c, "POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
				time.AfterFunc(3*time.Second, func() { c.Close() })
			}
		}
	case 6: // what is no HTTP
		if c, err := net.Dial("unix", s.socket); err == nil {
			noise := make([]byte, 4096)
			for i := range noise {
				noise[i] = byte(s.draw(256))
			}
			c.Write(noise)
			c.Close()
		}
	}
	s.count("hostile acts")
}
