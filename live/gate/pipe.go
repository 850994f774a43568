package gate

import "sync"

// pipe is what the server has sent and a client has not taken yet, so that a client who reads slowly holds up nobody but
// itself. It has one writer and one reader.
type pipe struct {
	most int // bytes

	mu    sync.Mutex
	held  []byte
	spare []byte
	ended bool
	err   error
	more  chan struct{} // something has changed
}

func newPipe(most int) *pipe { return &pipe{most: most, more: make(chan struct{}, 1)} }

// write adds what was sent. It is false where the reader is too far behind.
func (p *pipe) write(b []byte) bool {
	p.mu.Lock()
	fits := len(p.held)+len(b) <= p.most
	if fits {
		p.held = append(p.held, b...)
	}
	p.mu.Unlock()
	p.wake()
	return fits
}

// end tells that nothing more comes, and why, where that is a fault.
func (p *pipe) end(err error) {
	p.mu.Lock()
	p.ended, p.err = true, err
	p.mu.Unlock()
	p.wake()
}

func (p *pipe) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// take is all that is there; it holds until the next call. ended tells that nothing more comes.
func (p *pipe) take() (b []byte, ended bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b = p.held
	p.held, p.spare = p.spare[:0], b
	return b, p.ended, p.err
}
