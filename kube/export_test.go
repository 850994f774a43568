package kube

// Watches tells whether the API shows the Job of a key to a Norn.
func (d *Daemon) Watches(key string) bool { return d.view.job(key) != nil }
