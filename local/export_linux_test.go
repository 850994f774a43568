package local

func (w *watcher) deafen() error { return w.conn.Close() }

// count is the number of runners that are watched.
func (w *watcher) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs)
}
