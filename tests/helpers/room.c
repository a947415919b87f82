// SPDX-License-Identifier: Apache-2.0
//
// room: an empty program.  The build links it with one room of src and the rooms below it, to show
// that the room needs no other.  It is never run.

int main(void)
{
    return 0;
}
