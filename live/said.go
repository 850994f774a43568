package live

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// said takes what the program of a policy writes to its standard error, line by line, into the
// log: at most so much a minute, so that it fills no disk.
type said struct {
	log *slog.Logger

	guard sync.Mutex // of what follows: the program and its policy both have something to say
	from  time.Time  // when the present minute began
	left  int        // bytes that may still be written in it
	lost  int        // bytes that were left out
}

// mostSaid is how many bytes of its program a log takes in a minute.
const mostSaid = 64 << 10

// Write implements io.Writer. It is called with whole lines.
func (s *said) Write(text []byte) (int, error) {
	s.guard.Lock()
	defer s.guard.Unlock()
	if now := time.Now(); now.Sub(s.from) >= time.Minute {
		if s.lost > 0 {
			s.log.Warn(fmt.Sprintf("%d bytes of what a policy said were left out", s.lost))
		}
		s.from, s.left, s.lost = now, mostSaid, 0
	}
	if len(text) > s.left {
		s.left = 0
		s.lost += len(text)
		return len(text), nil
	}
	s.left -= len(text)
	for line := range strings.Lines(string(text)) {
		s.log.Info("policy", "says", strings.TrimRight(line, "\n"))
	}
	return len(text), nil
}
