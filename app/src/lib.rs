//! The application: command line, window, tray. The binary only starts it.
